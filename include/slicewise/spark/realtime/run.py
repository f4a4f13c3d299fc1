"""One Spark query of the real-time lane lasts from its start until none of its tasks writes any
more.

Its tasks hold their slots until then, so that whoever stops it may begin another in their place.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_ENDING_S = 5.0
"""For how long the tasks of a query that was stopped are waited for."""
_PAUSE_S = 0.005


@dataclass
class RealtimeRun:
    """A query that brings a source's events from `start` on."""

    session: SparkSession
    name: str
    """Name of its own: what its writers say carries it."""
    start: Mapping[int, int]
    """Partition -> first offset."""
    begun_us: int
    query: Any
    """Spark's, of the JVM."""
    checkpoint: Path
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Partition whose writer has spoken -> first offset that it has not acknowledged."""
    ends: Mapping[int, int] | None = None
    """Ends of the log when the writers of one that begins beside another first spoke."""

    @property
    def active(self) -> bool:
        return bool(self.query.isActive())

    @property
    def at(self) -> dict[int, int]:
        """Partition -> first offset that may not be acknowledged yet."""
        return {p: max(offset, self.acknowledged.get(p, 0)) for p, offset in self.start.items()}

    def error(self) -> BaseException | None:
        """The reason why it ended, if it ended by itself."""
        if not self.query.exception().isDefined():
            return None
        cause = self.query.exception().get()
        while cause.getCause() is not None:  # Spark's own text is its plan
            cause = cause.getCause()
        return RuntimeError(str(cause.toString()))

    def stop(self) -> None:
        """Ends it at once. Spark reports each task that it interrupts as an error, with its stack:
        nobody on call shall have to tell that from a failure, which `error` tells of anyhow."""
        context = self.session.sparkContext
        context.setLogLevel("OFF")
        try:
            before = _tasks(self.session)
            own = len(self.start) if self.active else 0
            self.query.stop()
            deadline = time.monotonic() + _ENDING_S
            while _tasks(self.session) > max(0, before - own) and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
        finally:
            context.setLogLevel("ERROR")
        shutil.rmtree(self.checkpoint, ignore_errors=True)


def _tasks(session: SparkSession) -> int:
    """Tasks that run, of all queries."""
    jvm: Any = session.sparkContext._jsc
    return sum(
        int(executor.numRunningTasks()) for executor in jvm.sc().statusTracker().getExecutorInfos()
    )
