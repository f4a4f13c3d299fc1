"""The offline store: one catalog, the same tables, seen by PyIceberg and by Spark.

Doors: Catalog, open_catalog, archive_state.
"""
