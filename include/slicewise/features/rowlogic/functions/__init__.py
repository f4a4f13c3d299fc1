"""The functions of row logic, and what each engine runs for them.

Doors: FUNCTIONS, to_spark, to_duckdb.
"""
