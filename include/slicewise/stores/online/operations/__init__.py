"""Operations of the online store: each is a value in the file of its rule, and `Store.run` runs it.

Doors: apply_batch, publish_days, reading.
"""
