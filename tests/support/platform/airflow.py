"""A small platform that Airflow runs, on real servers: its events lie in the hours just past.

Steps that several tests need are taken once, by whichever test comes first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.windows.durations import HOUR_US
from tests.support.platform.stack import Stack

HOURS = 2
USERS = 12
EVENTS = 600
PATIENCE_S = 900.0
"""For steps that take seconds on an idle machine, and minutes on one that is not."""
PROJECT = '''\
"""Plays of songs, for tests of the DAGs."""

import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "song_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1h",
    owner="tests",
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["10m", "1h", "1d"]),
        sw.Feature("seconds", sw.sum("seconds"), windows=["1h", "1d"]),
    ],
    owner="tests",
)
'''
SECOND_VIEW = """
songs = sw.FeatureView(
    "songs",
    source=plays,
    entity=["song_id"],
    features=[sw.Feature("plays", sw.count(), windows=["1h", "1d"])],
    owner="tests",
)
"""


class AirflowStack(Stack):
    """The stack with Airflow in it."""

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "slicewise.toml").write_text(
            'name = "plays"\ndefinitions = "features.py"\n'
        )
        self.define(PROJECT)
        super().__init__(folder / "state", self.project, overrides)

    def define(self, text: str) -> None:
        """Writes what the project's Python file holds from now on."""
        (self.project / "features.py").write_text(text)

    @cached_property
    def api(self) -> AirflowApi:
        return AirflowApi(self.settings.airflow_url)

    def down(self) -> None:
        if "api" in self.__dict__:
            self.api.close()
        super().down()

    @cached_property
    def hours(self) -> list[int]:
        """The finished hours that hold events, since the epoch."""
        now = time.time_ns() // 1_000 // HOUR_US
        return list(range(now - HOURS, now))

    @cached_property
    def events(self) -> int:
        """The topic's events, produced once: how many there are."""
        first_us = self.hours[0] * HOUR_US
        step_us = HOURS * HOUR_US // EVENTS
        records = []
        for n in range(EVENTS):
            at_us = first_us + n * step_us
            event = {
                "user_id": f"user {n * 7 % USERS}",
                "song_id": f"song {n % 5}",
                "seconds": (n % 90) / 7,
                "played_at": at_us,
            }
            records.append((n % 2, json.dumps(event).encode(), at_us // 1_000))
        self.produce("plays", records)
        return len(records)

    @cached_property
    def deployed(self) -> bool:
        output = self.cli("apply", timeout_s=PATIENCE_S).stdout
        assert "stream     Airflow starts it" in output, output
        assert "stream     up after" in output, output
        return True

    @cached_property
    def streamed(self) -> bool:
        """ingest_stream runs, and everything is applied."""
        assert self.deployed
        assert self.events
        assert not self.api.is_paused("ingest_stream"), "the first deployment hands the stream over"
        self.wait_applied("plays", PATIENCE_S)
        return True

    @cached_property
    def compacted(self) -> list[DagRun]:
        """The runs of a backfill over the past hours."""
        assert self.streamed
        self.api.unpause("compact_slices")
        first = datetime.fromtimestamp(self.hours[0] * 3600, UTC)
        last = first + timedelta(hours=HOURS - 1)
        return self.api.backfill("compact_slices", first, last, timeout_s=PATIENCE_S, progress=show)

    def compacted_slices(self) -> list[dict[str, Any]]:
        """Slices that all runs of compact_slices, scheduled ones too, list of the hours that hold
        events."""
        assert self.compacted
        self.settle("compact_slices")
        rows: list[dict[str, Any]] = []
        for run in self.api.runs("compact_slices"):
            report = self.api.xcom(run, "compact")
            assert isinstance(report, dict)
            rows += [row for row in report["slices"] if row["view"] == "listening"]
        return rows

    def settle(self, dag_id: str) -> None:
        """Waits until no run of the DAG is under way."""
        for run in self.api.runs(dag_id):
            if not run.over:
                self.api.wait(run, timeout_s=PATIENCE_S)

    def do(
        self, dag_id: str, task_id: str, timeout_s: float = PATIENCE_S, **conf: object
    ) -> dict[str, object]:
        """Triggers a DAG, waits, and gives what its task returned. Fails with the task's log."""
        self.api.unpause(dag_id)
        run = self.api.wait(self.api.trigger(dag_id, conf=conf), timeout_s=timeout_s)
        assert run.well, f"{dag_id} is {run.state}\n{self.api.log(run, task_id)[-6000:]}"
        value = self.api.xcom(run, task_id)
        assert isinstance(value, dict)
        return value


def show(runs: Sequence[DagRun]) -> None:
    """Progress, for a reader of the test's output."""
    print(f"{sum(run.over for run in runs)} of {len(runs)} runs are over", flush=True)


@contextmanager
def airflow_stack(overrides: Mapping[str, str] | None = None) -> Iterator[AirflowStack]:
    """Redis, Kafka, serving and Airflow in a temporary folder; gone with all their processes
    afterwards. overrides: settings by which they run."""
    with TemporaryDirectory(prefix="slicewise-airflow-") as folder:
        made = AirflowStack(Path(folder), overrides)
        try:
            made.up("redis", "kafka", "serving", "airflow")
            yield made
        finally:
            made.down()
