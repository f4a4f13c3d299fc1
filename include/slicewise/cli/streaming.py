"""The stream alone computes what is deployed: who deploys first is not left with views that nobody
feeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from slicewise.errors import ServerError
from slicewise.local.airflow.api import AirflowApi
from slicewise.local.servers import stream, supervisor
from slicewise.settings import Settings

PATIENCE_S = 900.0
_DAG = "ingest_stream"
_NOTIFY_EVERY_S = 10.0


def begin(settings: Settings, sources: Collection[str], notify: Callable[[str], None]) -> None:
    """Hands the stream to Airflow, as a first deployment needs it, and waits until it reads these
    sources.

    Where Airflow does not run, only says what to do. Raises ServerError where the stream does not
    start.
    """
    if not any(
        service.name == "airflow" and service.state in ("up", "external")
        for service in supervisor.status(settings)
    ):
        report_stopped(notify)
        return
    with AirflowApi(settings.airflow_url) as airflow:
        airflow.wait_for_dags([_DAG])
        airflow.unpause(_DAG)
    notify(f"stream     Airflow starts it ({_DAG})")
    begun = notified = time.monotonic()
    while (why := waiting_for(settings, sources)) is not None:
        now = time.monotonic()
        if now - begun > PATIENCE_S:
            raise ServerError(
                f"the stream: {why} after {PATIENCE_S:.0f} s",
                where=f"{settings.airflow_url}/dags/{_DAG}",
                expected="a stream that reads what is deployed",
                next_step=f"read {settings.state_dir / 'logs' / 'stream.log'}; what is deployed stays",
            )
        if now - notified > _NOTIFY_EVERY_S:
            notified = now
            notify(f"stream     {why}, {now - begun:.0f} s")
        time.sleep(0.25)
    notify(f"stream     up after {time.monotonic() - begun:.0f} s")


def waiting_for(settings: Settings, sources: Collection[str]) -> str | None:
    """Tells what the drivers lack before they bring events of these sources; None once they do."""
    for name in (stream.NAME, *((stream.REALTIME,) if settings.realtime == "on" else ())):
        status = stream.driver_status(settings, name)
        if not status.running:
            return f"the driver {name} is not started yet"
        if not status.well:
            return f"the driver {name} starts Spark"
        reported = status.heartbeat.get("sources", {})
        if left := sorted(set(sources) - set(reported)):
            return f"the driver {name} has not read {', '.join(left)} yet"
        if waits := [
            str(source_status["waiting"])
            for source_status in reported.values()
            if source_status.get("waiting")
        ]:
            return f"the driver {name} waits: {waits[0]}"
    return None


def report_stopped(notify: Callable[[str], None]) -> None:
    """Tells what to do where no stream runs: answers hold nothing that came since it stopped."""
    notify(
        "stream     does not run: new events wait in the log, and no answer has them. "
        f"Unpause {_DAG} in Airflow, or: slicewise stream ensure"
    )
