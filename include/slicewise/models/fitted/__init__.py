"""An estimator is fitted by code of the project, and written as bytes that come again.

Doors: Code, fitted, libraries.
"""
