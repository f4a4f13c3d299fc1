"""Reports that people open: figures over time with pictures, and the reports of checks.

Doors: add_routes.
"""
