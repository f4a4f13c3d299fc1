"""Recovery of a store that knows nothing: where topics begin, and from where a schema holds.

Doors: beginnings, record_schema_offsets.
"""
