"""Training sets that clients of the API request: built one after another, beside the API.

Doors: Worker, build.
"""
