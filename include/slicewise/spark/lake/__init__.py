"""Archive, compaction, backfill and maintenance of the Iceberg tables."""
