"""Definitions are frozen data: what a user declares, and what is deployed from it.

A user's words are in `declare` and `sql`, and the running plan is in `plan`. `project` reads a
folder of definitions.

Doors: project, row_columns, own.
"""
