"""The main job's report, shown to a newcomer at its end, from what store and servers say then."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.features import own
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.health.overview import freshness_of
from slicewise.local import deploy, first_answer, songs
from slicewise.settings import Settings
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.redis.status import StoreStatus, read_status


@dataclass(frozen=True)
class Report:
    """Report for a newcomer at the end."""

    events_in: int
    views: int
    features: int
    hours_compacted: int
    values_checked: int
    mismatches: int
    freshness_p50_ms: float | None
    freshness_p99_ms: float | None
    example: dict[str, Any]
    addresses: dict[str, str]
    board: list[tuple[str, float]] = field(default_factory=list)
    """The songs that are played most now, and their plays; empty without songs."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Step -> seconds after the beginning at which it was done."""
    changed: tuple[str, ...] = field(default_factory=tuple)
    """Changes by this run; empty where everything was done already."""


class Seconds:
    """Seconds after the beginning at which each step was done."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic, self._begun = monotonic, monotonic()
        self.of: dict[str, float] = {}

    def done(self, step: str) -> None:
        """The first time that it is said counts."""
        self.of.setdefault(step, round(self._monotonic() - self._begun, 2))


def report_of(settings: Settings, deployment: Deployment, changed: Sequence[str]) -> Report:
    status = read_status(settings.redis_url, ["check"])
    check = job_report(status, "check")
    streams = [stream for stream in freshness_of(status) if stream.source != own.SOURCE]
    with deploy.connected(settings) as store:
        metadata = store.run(ReadMetadata())
    topics = {metadata.topics.get(source.topic) for source in deployment.declared.sources}
    shown = songs.leaderboard_shown(settings) if songs.has_songs(settings, deployment) else None
    hours = {hour for published in status.published.values() for hour in published}
    return Report(
        events_in=sum(
            offset for (topic, _), offset in metadata.committed.offsets.items() if topic in topics
        ),
        views=len(deployment.views),
        features=sum(len(unit.features) for unit in deployment.declared.units),
        hours_compacted=len(hours),
        values_checked=int(check.get("values", 0)),
        mismatches=int(check.get("mismatches", 0)),
        freshness_p50_ms=_worst(streams, "freshness_p50_ms"),
        freshness_p99_ms=_worst(streams, "freshness_p99_ms"),
        example=first_answer.example(settings, deployment),
        addresses={
            "features": settings.serving_url,
            **({"top songs, live": shown.page} if shown is not None else {}),
            "Airflow": settings.airflow_url,
            "check report": str(settings.state_dir / "reports" / "check"),
        },
        board=list(shown.rows) if shown is not None else [],
        changed=tuple(changed),
    )


def _worst(streams: Sequence[Status], name: str) -> float | None:
    values = [getattr(stream, name) for stream in streams if getattr(stream, name) is not None]
    return max(values, default=None)


def job_record(status: StoreStatus, job: str) -> dict[str, Any]:
    """The record of the job's last run: ok, at_us and its report; empty where it left nothing."""
    text = status.parts.get(f"job:{job}")
    return dict(json.loads(text)) if text else {}


def job_report(status: StoreStatus, job: str) -> dict[str, Any]:
    return dict(job_record(status, job).get("report", {}))
