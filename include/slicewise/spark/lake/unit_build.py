"""A unit is built part by part: hours whose rows stand go to the store while Spark computes those
that lack rows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from slicewise.errors import CommitConflict, GapRefused
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.lifecycle.compaction import NOTHING, Fill, Filling, days_to_total
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.compact_run import UnitRun, total_of
from slicewise.spark.lake.compaction import HourJob, UnitTable
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.list_fill import fill
from slicewise.spark.lake.pace import Pace
from slicewise.spark.lake.report import Report
from slicewise.spark.lake.totals import first_totals
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.lake import slices
from slicewise.stores.lake.slices import Header
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.operations.readiness import MarkBuilding, MarkReady
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.rules.decisions import HOURS_PER_DAY, START_VERSION
from slicewise.windows.durations import HOUR_US

TOGETHER = 48
"""Hours of one part, after which progress is told: whole days."""
_ATTEMPTS = 4
_PATIENCE_S = 5.0
"""Seconds of waiting for Spark, after which the reason of a slowed build is looked at."""
Headers = dict[int, Header]
Fills = dict[int, Fill]


class Part(NamedTuple):
    """Hours that go to the store together, once their rows are committed."""

    hours: Sequence[int]
    computed: Future[tuple[Headers, Fills]] | None = None
    """Computation of their rows; None where these stand."""

    @property
    def waits(self) -> bool:
        """Tells whether its rows are not committed yet."""
        return self.computed is not None and not self.computed.done()


@dataclass
class UnitBuild:
    """A unit of slices while it is built. Its parts are gone through in the caller's thread; what
    Spark computes for them, an executor of one thread does meanwhile."""

    context: Context
    unit: StorageUnit
    report: Report
    filling: Filling
    events: Mapping[int, int]
    """Hour -> about how many events it has."""
    executor: Executor
    pace: Pace
    table: UnitTable = field(init=False)
    _parts: deque[Part] = field(init=False)
    _hours: list[int] = field(init=False)
    _done_hours: int = 0
    _left: int = 0
    _size: int = 0
    _entities: int = 0
    _took_s: float = 0.0
    _computed_s: float = 0.0
    _computed_events: int = 0
    _totals: dict[int, int] = field(default_factory=dict)
    result: dict[str, object] | None = None
    """Figures of the build, once it is over."""

    def __post_init__(self) -> None:
        self.table = self.context.unit_table(self.unit)
        headers = self.table.headers()
        # the newest first: what is asked most is back first where a run is stopped and goes on
        self._hours = sorted({*self.filling.newest, *headers}, reverse=True)
        now_hour = self.context.store.run(ReadTime()) // HOUR_US
        lacking = (
            self._lacking(headers, now_hour)
            if _archived(self.context, self.unit, self.filling.start)
            else set()
        )
        stand = [hour for hour in self._hours if hour not in lacking]
        computes = self.context.unit_table(self.unit) if lacking else self.table
        self._computed_events = sum(self.events.get(hour, 0) for hour in lacking)
        self._parts = deque(Part(hours) for hours in of_whole_days(stand, TOGETHER))
        for hours in of_whole_days([hour for hour in self._hours if hour in lacking], TOGETHER):
            task = self.executor.submit(self._compute, computes, hours)
            self._parts.append(Part(hours, task))

    @property
    def waits(self) -> bool:
        """Tells whether its next part is not computed yet."""
        return bool(self._parts) and self._parts[0].waits

    def go_on(self) -> None:
        """Writes the next part to the store, and ends the build after the last. Raises GapRefused
        where the archive is behind the unit's start."""
        begun = time.monotonic()
        check_archived(self.context, self.unit, self.filling.start)
        if not self._done_hours:
            self.context.store.run(MarkBuilding(self.unit, 0, len(self._hours)))
        if self._parts:
            self._publish(self._next_part())
        if not self._parts:
            self._end()
        self._took_s += time.monotonic() - begun
        if not self._parts:
            self.result = self._results()

    def _compute(self, table: UnitTable, hours: Sequence[int]) -> tuple[Headers, Fills]:
        """Computes and commits the rows of these hours, in the executor's thread."""
        headers: Headers = {}
        fills: Fills = {}
        left = list(hours)
        while left:
            some, left = self._some(left)
            begun = time.monotonic()
            try:
                headers, filled = write_rows(table, self.filling, some, self.events)
            finally:
                took_s = time.monotonic() - begun
                self._computed_s += took_s
            fills |= filled
            self.pace.rest(took_s)
        return headers, fills

    def _some(self, hours: Sequence[int]) -> tuple[list[int], list[int]]:
        """Hours that go together at the pace of now, and those that follow: a day where it is
        slowed."""
        if not self.pace.slowed:
            return list(hours), []
        first = next(of_whole_days(hours, HOURS_PER_DAY))
        return first, list(hours[len(first) :])

    def _next_part(self) -> Part:
        part = self._parts.popleft()
        some, left = self._some(part.hours)
        if left:
            self._parts.appendleft(part._replace(hours=left))
        return part._replace(hours=some)

    def _lacking(self, headers: Headers, now_hour: int) -> set[int]:
        """Hours whose rows are to be computed, and all of a day that is over and has such: a day's
        total goes in with all of its hours."""
        _, jobs = _jobs(self.table, self.filling, self._hours, headers)
        lacking = {job.hour for job in jobs}
        over = {h // HOURS_PER_DAY for h in lacking if h // HOURS_PER_DAY < now_hour // 24}
        return lacking | {hour for hour in self._hours if hour // HOURS_PER_DAY in over}

    def _publish(self, part: Part) -> None:
        context, table, filling = self.context, self.table, self.filling
        last_hour = self._done_hours + len(part.hours)
        some_hours = f"hours {self._done_hours + 1} to {last_hour} of {len(self._hours)}"
        if part.computed is not None:
            self._await(part.computed, f"Spark computes {some_hours}")
        self._put(f"{some_hours} are written to the store")
        # as they stand now: another run may have compacted some meanwhile
        headers, fills = write_rows(table, filling, part.hours, self.events)
        entities = self.report.entities
        done = context.store.run(ReadHours(self.unit))
        todo = [
            hour for hour in part.hours if done.get(hour, NOTHING) < headers[hour].archive_version
        ]
        own = Header(START_VERSION, filling.start)
        named = {hour: own if fills[hour] is Fill.START else headers[hour] for hour in todo}
        before, kept_from = self.report.left_over, context.kept_from(self.unit)
        if todo:
            kept = [hour for hour in todo if hour >= kept_from]
            self._size += slices.bounds(table.table, kept)[1]
        outcomes = UnitRun(context, table, self.report, frozenset()).publish_as(
            named,
            {hour: headers[hour].archive_version for hour in todo},
            kept_from,
            dict.fromkeys(todo, "backfill"),
            self.pace.share,
        )
        self._totals |= outcomes.whole_days(headers)
        self._left += self.report.left_over - before
        self._entities += self.report.entities - entities
        self._done_hours = last_hour
        context.store.run(MarkBuilding(self.unit, last_hour, len(self._hours)))

    def _await(self, computed: Future[tuple[Headers, Fills]], text: str) -> None:
        """Waits for rows, and writes so as often as the reason of a slowed build changes."""
        stated: str | None = None
        while not computed.done():
            if stated != self.pace.reason:
                stated = self.pace.reason
                self._put(text)
            wait([computed], _PATIENCE_S)
        computed.result()

    def _put(self, text: str) -> None:
        why = self.pace.reason
        put_phase(self.context, [self.unit], f"{text}; {why}" if why else text)

    def _end(self) -> None:
        """Totals, and the unit is ready where nothing was left over."""
        context, unit, table = self.context, self.unit, self.table
        put_phase(context, [unit], "totals of days are written to the store")
        if unit.lifetime and not first_totals(context, table, self.report, self.filling):
            self._left += 1
        self._total()
        if self._left:
            text = "entities that the stream changed meanwhile are left to the next run"
            put_phase(context, [unit], text)
            return
        context.store.run(MarkReady(unit, self.filling.start, _views(context)))
        put_phase(context, [unit], phases.OVER)
        hours = len(self._hours)
        event("unit_ready", unit=unit.storage_fingerprint, view=unit.view, hours=hours)

    def _total(self) -> None:
        """Totals of all days that are over, before the first read: without them it would fetch
        every hour."""
        context, unit = self.context, self.unit
        kept_from, now_hour = context.kept_from(unit), context.store.run(ReadTime()) // HOUR_US
        for day in days_to_total(self._hours, None, now_hour):
            if (day + 1) * HOURS_PER_DAY > kept_from:
                self.report.add_day(unit, day, total_of(self.table, day, self._totals))

    def _results(self) -> dict[str, object]:
        unit = self.unit
        figures = {
            "entities": self._entities,
            "bytes": self._size,
            "took_ms": int((self._took_s + self._computed_s) * 1000),
            "events": self._computed_events,
        }
        named_as = {"source": unit.source, "view": unit.view, "unit": unit.storage_fingerprint}
        self.report.built.append(named_as | figures)
        return {
            **figures,
            "view": unit.view,
            "unit": unit.storage_fingerprint,
            "hours": len(self._hours),
            "left_over": self._left,
            "ready": not self._left,
        }


@dataclass
class ListBuild:
    """A unit of event lists while it is built: in one part."""

    context: Context
    unit: ListUnit
    start: OffsetVector
    result: dict[str, object] | None = None
    waits: bool = False

    def go_on(self) -> None:
        """Writes its events to the store."""
        context, unit = self.context, self.unit
        check_archived(context, unit, self.start)
        context.store.run(MarkBuilding(unit, 0, 1))
        put_phase(context, [unit], "Spark writes its events to the store")
        done = fill(context, unit, self.start)
        context.store.run(MarkReady(unit, self.start, _views(context)))
        put_phase(context, [unit], phases.OVER)
        event("unit_ready", unit=unit.storage_fingerprint, view=unit.view, events=done.applied)
        self.result = {
            "view": unit.view,
            "unit": unit.storage_fingerprint,
            "events": done.applied,
            "cut": done.cut,
            "left_over": 0,
            "ready": True,
        }


def _archived(context: Context, unit: StorageUnit, start: OffsetVector) -> bool:
    return context.archives[unit.source].offset_vector.dominates(start)


def check_archived(context: Context, unit: StorageUnit, start: OffsetVector) -> None:
    """Raises GapRefused where the archive is behind the unit's start offsets."""
    if _archived(context, unit, start):
        return
    put_phase(
        context,
        [unit],
        "the archive is behind the offset from which the stream brings its events",
    )
    raise GapRefused(
        "the archive has not reached the unit's start offsets",
        where=f"unit {unit.storage_fingerprint} of view {unit.view!r}",
        next_step="run it again once the log's end is archived",
    )


def put_phase(context: Context, units: Sequence[StorageUnit], text: str) -> None:
    """Tells what these units wait for, to whoever asks."""
    if not units:
        return
    named = {unit.storage_fingerprint: text for unit in units}
    text_now = phases.changed(
        context.store.run(ReadStatus(phases.PART)), named, context.clock.now_us()
    )
    context.store.run(PutStatus(phases.PART, text_now))


def of_whole_days(hours: Sequence[int], most: int) -> Iterator[list[int]]:
    """Hours, those of a day together, in their order: about so many at a time."""
    some: list[int] = []
    for _, of_day in groupby(hours, key=lambda hour: hour // HOURS_PER_DAY):
        day = list(of_day)
        if some and len(some) + len(day) > most:
            yield some
            some = []
        some += day
    if some:
        yield some


def write_rows(
    table: UnitTable, filling: Filling, hours: Sequence[int], events: Mapping[int, int]
) -> tuple[Headers, Fills]:
    """Header and fill of each of these hours (START or PUBLISH), once all rows that they lacked are
    committed."""
    for attempt in range(1, _ATTEMPTS + 1):
        headers = table.headers()
        fills, jobs = _jobs(table, filling, hours, headers)
        if not jobs:
            return headers, fills
        try:
            table.write(jobs, sum(events.get(job.hour, 0) for job in jobs))
        except CommitConflict as conflict:
            warning("backfill_conflict", unit=table.unit.storage_fingerprint, attempt=attempt)
            if attempt == _ATTEMPTS:
                raise conflict
    raise CommitConflict(
        "what stands of the hours changed with every attempt",
        where=f"unit {table.unit.storage_fingerprint}",
        next_step="run it again: it goes on",
    )


def _jobs(
    table: UnitTable, filling: Filling, hours: Sequence[int], headers: Headers
) -> tuple[Fills, list[HourJob]]:
    """Fill of each of these hours, and the jobs that compute rows of those that lack them."""
    fills: Fills = {}
    jobs: list[HourJob] = []
    for hour in hours:
        header = headers.get(hour)
        fill = fills[hour] = (
            filling.of(hour, 0, None)
            if header is None
            else filling.of(hour, header.archive_version, header.offset_vector)
        )
        if fill in (Fill.COMPUTE, Fill.EXTEND):
            jobs.append(HourJob(hour, START_VERSION, filling.start, header))
        elif fill is Fill.RECOMPACT:
            archive = table.archive
            jobs.append(HourJob(hour, archive.archive_version, archive.offset_vector, header))
    return fills, jobs


def _views(context: Context) -> dict[str, list[str]]:
    """View -> its units, for the aliases of those that are ready now."""
    return {
        view: [unit.storage_fingerprint for unit in context.deployment.view(view)]
        for view in context.deployment.views
    }
