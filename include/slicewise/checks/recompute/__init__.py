"""The offline side of the check: Spark SQL over archived events.

Doors: Recomputation, WindowOf, queries.
"""
