"""Archived events as training reads them, and the job that archives what is missing."""
