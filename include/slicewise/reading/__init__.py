"""One path for every answer: plan what is read, ask for it, combine it.

Doors: reader, ReadPlan, exchange.
"""
