"""Means of every Spark job: session, configuration, classes, workers, reports.

Doors: stream_session, log, status_sinks.
"""
