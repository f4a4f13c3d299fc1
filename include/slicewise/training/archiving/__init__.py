"""Archived events as training reads them, and the job that archives what is missing.

Doors: Offline, archive_first, pending.
"""
