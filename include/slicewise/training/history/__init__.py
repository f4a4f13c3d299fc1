"""A warehouse table becomes the past of a source: looked at, judged as the topic's records are, and
written part by part.

Doors: importing.
"""
