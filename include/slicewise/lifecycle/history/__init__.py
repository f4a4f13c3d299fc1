"""Figures of the past: what is kept of every job, minute and incident, and what people see of it.

Doors: drift, entries, pictures.
"""
