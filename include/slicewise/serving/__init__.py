"""Answers come from one service object, whether asked over HTTP or in process.

Doors: Client, answering, http.
"""
