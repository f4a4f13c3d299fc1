"""Kafka records as typed columns.

Doors: LogReader, parsed, with_units.
"""
