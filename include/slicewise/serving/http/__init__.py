"""HTTP over the service object: application, forms, pages, metrics, admission.

Doors: app.
"""
