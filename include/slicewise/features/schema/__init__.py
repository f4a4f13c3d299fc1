"""A source's columns: types, paths in a record, duplicates, and a change of schema.

Doors: KafkaSource, arrow_type, EventIds.
"""
