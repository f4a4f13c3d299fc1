"""Parts that every aggregate is made of: columns, events, exact digits, hashes and orders.

Doors: values, ragged, Field.
"""
