"""Training sets over HTTP: requested, polled, fetched and cancelled; a process beside builds them.

Doors: TrainingSets, documented, upload_of.
"""
