"""What every Spark job needs: session, configuration, classes, workers, reports.

Doors: stream_session, job_session, log.
"""
