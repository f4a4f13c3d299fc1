"""The embedded Airflow runs this repository's dags/ and plugins/, and its tasks load our
settings."""

from __future__ import annotations

import base64
import hashlib
import json
import os

from slicewise.lifecycle.jobs import SPARK_POOL
from slicewise.local.servers import health
from slicewise.local.servers.ports import HOST
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

NAME = "airflow"
_GIVEN = ("SLICEWISE_ALERT_", "AIRFLOW_CONN_", "OPENLINEAGE_API_KEY")
_LINEAGE_S = 2


def environment(settings: Settings, state: StateFolder, port: int) -> dict[str, str]:
    """Airflow's variables."""
    home = state.path / NAME
    secret = state.secret("airflow")
    fernet = base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()).decode()
    # what people set for its tasks: where alerts go, and by which connections
    given = {name: value for name, value in os.environ.items() if name.startswith(_GIVEN)}
    return {
        **given,
        "PATH": f"{settings.airflow_bin.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__AUTH_MANAGER": (
            "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
        ),
        # only this machine reaches it: no password stands between a newcomer and the pages
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__DAGS_FOLDER": str(settings.home / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(settings.home / "plugins"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__FERNET_KEY": fernet,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{port}/execution/",
        # the DAGs change with a release, not by the half minute
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://{HOST}:{port}/",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secret,
        "AIRFLOW__API_AUTH__JWT_SECRET": secret,
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(state.path / "logs" / "airflow-tasks"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **_lineage(settings),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": settings.spark_master}
        ),
        "NO_COLOR": "1",
    }


def _lineage(settings: Settings) -> dict[str, str]:
    """Variables of Airflow's OpenLineage provider. A receiver that is slow holds a task up for two
    seconds at most, twice, and is not tried again."""
    if not settings.lineage_url:
        return {}
    transport: dict[str, object] = {
        "type": "http",
        "url": settings.lineage_url,
        "timeout": _LINEAGE_S,
        "retry": {"total": 0},
    }
    key = os.environ.get("OPENLINEAGE_API_KEY")
    if key:
        transport["auth"] = {"type": "api_key", "apiKey": key}
    return {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": settings.lineage_namespace,
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "6",
        # a forked process would share the task's connection to its supervisor
        "AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD": "True",
        # who reads the graph needs no code of ours
        "AIRFLOW__OPENLINEAGE__DISABLE_SOURCE_CODE": "True",
    }


def service(settings: Settings, state: StateFolder, port: int) -> Service:
    """Scheduler, dag processor, API server and triggerer below one process."""
    return Service(
        name=NAME,
        argv=(
            str(settings.airflow_bin.parent / "python"),
            "-P",
            "-m",
            "slicewise.local.airflow.head",
            str(settings.airflow_bin),
            SPARK_POOL,
            str(settings.spark_slots),
        ),
        cwd=state.path,
        health=lambda _: health.airflow(port),
        address=f"http://{HOST}:{port}",
        env=environment(settings, state, port),
        prepare=lambda: (state.path / NAME).mkdir(mode=0o700, exist_ok=True),
        # it would start the stream again
        stop_order=10,
        start_timeout_s=420.0,  # half a minute on two idle cores, minutes on busy ones
        stop_timeout_s=30.0,
    )
