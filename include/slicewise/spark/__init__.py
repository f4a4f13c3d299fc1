"""Everything that runs in a Spark driver or on its executors: micro-batch lane, archive,
compaction, backfill.

Importing this package imports no pyspark; `conf` can be read from any environment.

Doors: microbatch, realtime, lake.
"""
