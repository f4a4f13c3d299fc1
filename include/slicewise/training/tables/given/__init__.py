"""Events that a user gives, as a table in memory or a file of their own.

Doors: typed_events, read_events, plain_event.
"""
