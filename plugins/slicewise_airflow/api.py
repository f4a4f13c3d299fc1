"""A task that must change Airflow itself asks its REST API, as a person would: tasks may not open its database."""

from __future__ import annotations

from slicewise.local.airflow_api import AirflowApi
from slicewise.settings import Settings


def airflow_api() -> AirflowApi:
    """The API of the Airflow that this task runs under."""
    return AirflowApi(Settings.load().airflow_url)
