"""Data sets and columns that each job reads and writes, by the deployment in the store.

Doors: datasets, steps.
"""
