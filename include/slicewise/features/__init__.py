"""Definitions are frozen data: what a user declares, and what is deployed from it.

Doors: declare, plan, sql.
"""
