"""Changes that a deployment makes to the one that runs: told, weighed and refused before it is
applied.

Doors: explain, whole, check_laws.
"""
