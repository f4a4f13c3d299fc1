"""A prediction API over a store and an archive of its own, and its training sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.settings import Settings
from slicewise.stores.jobs.folder import FOLDER
from slicewise.stores.lake.catalog import open_catalog
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.integration.serving.test_answers import events_before
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.archived import archive
from tests.support.stores.served import TOPIC, Served

SEED = 20_261_130
REFS = ["listening:plays_1h", "listening:seconds_7d", "everyone:plays_1h"]
USERS = ("ann", "bob", "zoë", "nobody")
NO_BROKER = "127.0.0.1:1"
WAIT_S = 90.0


@dataclass
class Api:
    url: str
    variables: Mapping[str, str]
    now_us: int

    @property
    def settings(self) -> Settings:
        return Settings.load(self.variables)

    @property
    def folder(self) -> Path:
        return self.settings.state_dir / FOLDER

    def rows(self) -> list[dict[str, Any]]:
        """A spine: users at instants among the events, with a label."""
        first = (self.now_us - 3 * HOUR_US) // MINUTE_US * MINUTE_US
        return [
            {"user_id": user, "at": text_of(first + i * 7 * MINUTE_US), "label": i}
            for i, user in enumerate(USERS * 3)
        ]

    def spine(self, path: Path) -> Path:
        """The same rows as a file of Parquet."""
        table = pa.Table.from_pylist(self.rows())
        at = [datetime.fromisoformat(text) for text in table["at"].to_pylist()]
        column = pa.array(at, pa.timestamp("us", "UTC"))
        pq.write_table(table.set_column(table.column_names.index("at"), "at", column), path)
        return path

    def call(self, method: str, path: str = "", **more: Any) -> httpx.Response:
        url = f"{self.url}/v1/training-sets{path}"
        return httpx.request(method, url, trust_env=False, timeout=30, **more)

    def submit(self, **body: Any) -> str:
        """Submits a training set of the rows; its id."""
        given = {"features": REFS, "spine": self.rows(), **body}
        reply = self.call("POST", json=given)
        assert reply.status_code == 202, reply.text
        assert reply.headers["location"] == reply.json()["address"]
        return str(reply.json()["id"])

    def state(self, job_id: str) -> dict[str, Any]:
        reply = self.call("GET", f"/{job_id}")
        assert reply.status_code == 200, reply.text
        state: dict[str, Any] = reply.json()
        return state

    def when(self, job_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first state of a set of which this holds."""
        deadline = time.monotonic() + WAIT_S
        while not holds(state := self.state(job_id)):
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
        return state

    def ended(self, job_id: str) -> dict[str, Any]:
        return self.when(job_id, lambda state: state["state"] not in ("waiting", "running"))

    def workers(self) -> list[psutil.Process]:
        """The processes that build training sets in this state folder."""
        return own_processes("slicewise.training.jobs", self.settings.state_dir)

    def sparks(self) -> list[psutil.Process]:
        """The processes of Spark that answer data sets of this state folder."""
        return own_processes("spark_jobs/dataset.py", self.settings.state_dir)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def own_processes(word: str, state: Path) -> list[psutil.Process]:
    some = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if any(word in part for part in process.cmdline()):
                own = process.environ().get("SLICEWISE_STATE") == str(state)
                some += [process] if own else []
    return some


def text_of(at_us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).isoformat()


@contextmanager
def api_on(state: Path, **variables: str) -> Iterator[Api]:
    """An API on such a platform."""
    with platform_on(state, **variables) as (given, now_us), started(given, now_us) as api:
        yield api


@contextmanager
def started(variables: Mapping[str, str], now_us: int, workers: int = 1) -> Iterator[Api]:
    """The API on a platform, of so many processes."""
    with serving(variables["SLICEWISE_REDIS_URL"], workers, variables) as url:
        yield Api(url, variables, now_us)


@contextmanager
def platform_on(state: Path, **variables: str) -> Iterator[tuple[Mapping[str, str], int]]:
    """A store and an archive of events up to now; no log answers. Gives variables, and now."""
    print(f"seed {SEED}")
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        planned = deployment()
        stack.enter_context(Served.on(redis.url, planned))
        given = {
            "SLICEWISE_STATE": str(state),
            "SLICEWISE_REDIS_URL": redis.url,
            "SLICEWISE_KAFKA_BOOTSTRAP": NO_BROKER,
            **variables,
        }
        now_us = time.time_ns() // 1_000
        events = events_before(now_us, 400, SEED)
        rows = [
            {**e.columns, "played_at": e.time_us, "partition": e.partition, "offset": e.offset}
            for e in events
        ]
        catalog = open_catalog(Settings.load(given))
        archive(catalog, planned.source("plays"), TOPIC, 1, rows, [], now_us)
        yield given, now_us
