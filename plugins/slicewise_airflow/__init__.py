"""What Airflow needs around slicewise's decisions: operators, a trigger and alerts; none decides anything."""
