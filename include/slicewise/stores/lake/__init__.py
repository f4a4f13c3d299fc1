"""The offline store: one catalog, the same tables, seen by PyIceberg and by Spark.

Doors: open_catalog, archive, schemas.
"""
