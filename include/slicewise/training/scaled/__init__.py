"""Data sets that are too large for one process, answered by shares of entities.

Doors: ScaledRequest, answer_share, build_by_spark.
"""
