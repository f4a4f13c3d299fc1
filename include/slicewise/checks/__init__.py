"""The check that online and offline agree: recomputed by other means than those that are checked.

Doors: CheckRun, LightCheck, report.
"""
