"""A metadata database that was made anew has the DAGs paused that were paused before, and no
others."""

from __future__ import annotations

from slicewise.errors import SlicewiseError
from slicewise.local.airflow import paused
from slicewise.local.airflow.api import AirflowApi
from slicewise.log import warning
from slicewise.settings import Settings


def at_creation(dag_id: str, *, otherwise: bool = True) -> bool:
    """Tells whether Airflow makes a DAG paused, as it was before; `otherwise` where nobody knows.
    For the DAG's `is_paused_upon_creation`, which a DAG that exists ignores."""
    try:
        return paused.read(Settings.load().state_dir).get(dag_id, otherwise)
    except SlicewiseError:
        return otherwise


def remember(dag_id: str | None = None) -> None:
    """Keeps which DAGs are paused now. dag_id: one that has just been paused, where not all are
    looked at."""
    try:
        settings = Settings.load()
        if dag_id is None:
            with AirflowApi(settings.airflow_url) as api:
                states = api.paused_by_dag()
        else:
            states = {dag_id: True}
        paused.keep(settings.state_dir, states)
    except (SlicewiseError, OSError) as error:
        warning("paused_not_kept", error=type(error).__name__)
