"""Probes go the way of every event, from the log to an HTTP answer, all the time. They say how long
it took.

Doors: Prober, Metrics.
"""
