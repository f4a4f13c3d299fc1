"""The embedded Airflow, and its REST API.

Doors: AirflowApi.
"""
