"""Archive, compaction, backfill and maintenance of the Iceberg tables.

Doors: Context, run_job, Report.
"""
