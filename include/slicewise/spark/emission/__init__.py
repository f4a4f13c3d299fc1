"""The emission's query, its driver and its sinks.

Doors: EmissionDriver, EmissionQuery.
"""
