"""The gate, the report and the rows of `ops.checks`."""
