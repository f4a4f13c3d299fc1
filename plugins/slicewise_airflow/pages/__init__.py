"""Pages that Airflow shows: the documentation, the platform's status, and data docs."""
