"""The real-time lane: each event is written to the store by itself, until a batch applies it.

Doors: RealtimeDriver.
"""
