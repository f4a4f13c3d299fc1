"""Logs of the API: its answers, and predictions and labels that are sent to it, become events.

Doors: RequestLog, Outcomes, LoggedAnswer.
"""
