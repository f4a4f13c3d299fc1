"""Lineage that jobs send to a receiver of OpenLineage events. Needs no Spark: Airflow's operators
use it too.

Doors: report, facets.
"""
