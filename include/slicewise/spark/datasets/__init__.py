"""Data sets of more events than a process has room for: each share of the entities is answered by
the local engine.

Doors: answer_request.
"""
