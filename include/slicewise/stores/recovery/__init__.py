"""What a store that knows nothing is told anew: where topics begin, and from where a schema holds.

Doors: beginnings, record_places.
"""
