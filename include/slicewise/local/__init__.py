"""The embedded servers: what is started here is stopped here, and nothing else is ever touched.

Doors: servers, airflow, deploy.
"""
