"""Is the platform well: judgements, watches, findings, alerts and the overview.

Doors: judge, overview, alerts.
"""
