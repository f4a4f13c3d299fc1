"""The gate, the report and the rows of `ops.checks`.

Doors: judge, write_report, rows_of.
"""
