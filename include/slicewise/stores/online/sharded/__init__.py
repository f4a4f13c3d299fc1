"""Several nodes: what they claim together, and how a batch is cut by them.

Doors: metadata, routing, splitting.
"""
