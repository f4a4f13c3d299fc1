"""A job's report is one JSON object: for people, for Airflow, and as rows of `ops.runs`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from slicewise.errors import SlicewiseError
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.jobs import hour_text
from slicewise.spark.lake.archive import Archived
from slicewise.spark.lake.publish_hours import HourOutcome
from slicewise.stores.lake.records import BUILT
from slicewise.stores.lake.slices import Header

_SLICE = ("slice", "events", "entities", "late", "bytes")


@dataclass
class Report:
    """Report of a run."""

    job: str
    run_id: str = field(default_factory=lambda: uuid4().hex)
    archived: list[dict[str, Any]] = field(default_factory=list)
    hours: list[dict[str, Any]] = field(default_factory=list)
    slices: list[dict[str, Any]] = field(default_factory=list)
    days: list[dict[str, Any]] = field(default_factory=list)
    totals_until: list[dict[str, Any]] = field(default_factory=list)
    """Totals of units with a lifetime: what was brought into them."""
    built: list[dict[str, Any]] = field(default_factory=list)
    """Units that were built: what was read, and how long it took."""
    failed: list[dict[str, Any]] = field(default_factory=list)
    """Hours of units that could not be compacted while others were, and why."""
    more: dict[str, Any] = field(default_factory=dict)
    left_over: int = 0
    entities: int = 0
    """Hours of entities that were published."""
    begun: float = field(default_factory=time.monotonic)

    def add_archive(self, done: Archived) -> None:
        self.archived.append(done.to_json())

    def add_hour(
        self, unit: StorageUnit, hour: int, why: str, header: Header, outcome: HourOutcome | None
    ) -> None:
        entities: Mapping[str, int] = outcome.entities if outcome is not None else {}
        named = {"view": unit.view, "unit": unit.storage_fingerprint, "hour": hour_text(hour)}
        self.left_over += entities.get("left_over", 0)
        self.entities += entities.get("swapped", 0)
        self.hours.append(named | {"why": why, "seq": header.archive_version} | dict(entities))
        for row in outcome.slices if outcome is not None else ():
            self.slices.append(named | dict(zip(_SLICE, row, strict=True)))

    def add_failed(self, unit: StorageUnit, hours: Iterable[int], error: SlicewiseError) -> None:
        named = {"view": unit.view, "unit": unit.storage_fingerprint, "error": error.what}
        self.failed += [named | {"hour": hour_text(hour)} for hour in hours]

    def add_day(self, unit: StorageUnit, day: int, totals: int) -> None:
        self.days.append(
            {
                "view": unit.view,
                "unit": unit.storage_fingerprint,
                "day": hour_text(day * 24)[:10],
                "totals": totals,
            }
        )

    def add_total_until(
        self, unit: StorageUnit, total_until: int, archive_version: int, outcome: Mapping[str, int]
    ) -> None:
        named = {
            "view": unit.view,
            "unit": unit.storage_fingerprint,
            "before": hour_text(total_until),
            "seq": archive_version,
        }
        self.left_over += outcome.get("left_over", 0)
        self.totals_until.append(
            named | {count: outcome.get(count, 0) for count in ("brought", "stale", "left_over")}
        )

    def to_json(self) -> dict[str, Any]:
        """The report; `outcome` is clean where there was nothing to do."""
        worked = bool(self.hours or any(archived["events"] for archived in self.archived))
        return {
            "job": self.job,
            "run_id": self.run_id,
            "outcome": "done" if worked else "clean",
            **self.more,
            "left_over": self.left_over,
            "took_ms": int((time.monotonic() - self.begun) * 1000),
            "archived": self.archived,
            "hours": self.hours,
            "days": self.days,
            "slices": self.slices,
            **({"failed": self.failed} if self.failed else {}),
            **({"horizons": self.totals_until} if self.totals_until else {}),
        }

    def rows(self, now_us: int) -> list[dict[str, Any]]:
        """Rows of `ops.runs`: one per archive, hour and slice; a clean run has one of its own."""
        begin: dict[str, Any] = {"run_id": self.run_id, "job": self.job, "time": now_us}
        rows = [
            # by how late they were stands in the report alone: `late` of a row counts a slice's
            begin | {"job": "archive", "outcome": "done"} | {**archived, "late": None}
            for archived in self.archived
            if archived["events"]
        ]
        for hour in self.hours:
            figures = {"outcome": hour["why"], "entities": hour.get("swapped")}
            rows.append(begin | hour | figures | {"hour": parse_hour(hour["hour"])})
        for row in self.slices:
            rows.append(begin | row | {"outcome": "slice", "hour": parse_hour(row["hour"])})
        for row in self.failed:
            rows.append(begin | row | {"outcome": "failed", "hour": parse_hour(row["hour"])})
        for row in self.built:
            rows.append(begin | row | {"outcome": BUILT})
        return rows or [begin | {"outcome": "clean"}]


def parse_hour(text: str) -> int:
    """Inverse of `jobs.hour_text`; BadRequest for anything else."""
    from datetime import UTC, datetime

    from slicewise.errors import BadRequest

    try:
        return int(datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp()) // 3600
    except ValueError as error:
        raise BadRequest(
            f"{text!r} is no hour",
            where="--hour",
            expected="2026-11-21T08, in UTC",
            next_step="write the hour so",
        ) from error
