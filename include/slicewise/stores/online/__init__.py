"""The online store: its port, keys and steps; rules, operations and adapters below.

Doors: OnlineStore, StoreMetadata, keys.
"""
