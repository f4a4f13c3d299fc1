"""Expectations on events and on features' values, which Great Expectations judges in Spark.

Doors: ExpectationRun, suites, outcome.
"""
