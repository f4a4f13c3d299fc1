"""Models are answered beside the live one, on logged requests, by a process of their own.

Doors: run_shadows.
"""
