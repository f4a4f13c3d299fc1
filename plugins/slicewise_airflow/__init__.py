"""Airflow's side of slicewise's decisions: operators, a trigger and alerts; none decides
anything."""
