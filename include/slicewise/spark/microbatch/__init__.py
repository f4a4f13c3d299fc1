"""The micro-batch lane: batches of pending events are applied to the store.

Doors: plan_stream, BatchFigures, drop.
"""
