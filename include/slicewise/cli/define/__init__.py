"""Commands for definitions: init, check, plan, apply, sql.

Doors: check, plan, apply.
"""
