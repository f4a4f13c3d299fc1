"""One service object answers every read; the ledger value of an answer comes with its data.

A flow (`read`) plans, asks the store once, and merges. It asks again only where the reply shows
that the plan was made under other marks, or that a day's total is out of date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise import token as tokens
from slicewise.clock import Clock, SystemClock
from slicewise.cover import Cover
from slicewise.errors import (
    BadRequest,
    BehindToken,
    BeyondRetention,
    IncarnationChanged,
    NotReady,
    StoreUnavailable,
    UnknownName,
)
from slicewise.features.plan import Deployment, PlannedFeature, Unit
from slicewise.merge import Base, Merged, Stored, merge
from slicewise.merge_plan import ReadMode, ReadPlan, plan_key, plan_read
from slicewise.serving.answer import Answer, EntityAnswer
from slicewise.serving.catalog import Catalog, Part, Selection, entity_tags
from slicewise.serving.fallback import LastKnown, defaults_of
from slicewise.serving.freshness import Freshness
from slicewise.serving.requests import FeaturesRequest, instant_text
from slicewise.serving.steps import Covers, Flow, Generation, Manifest, Read, Reopen
from slicewise.slices import ceil, resolution
from slicewise.stores import keys
from slicewise.stores.decisions import kept_from_us
from slicewise.stores.ports import EntityRead, Marks, ReadReply, UnitRead

ATTEMPTS = 6
"""Replans of one request before it is given up: each has a cause that passes."""
PLANS = 2_000
WITHOUT_TOTAL = 10_000


@dataclass(frozen=True, eq=False)
class _Planned:
    """A request under a catalog: what is read, and how the reply is laid out."""

    plans: tuple[ReadPlan, ...]
    """One per part of the selection."""
    reads: tuple[EntityRead, ...]
    targets: tuple[tuple[int, int, int | None], ...]
    """Per read its (group, entity, partition)."""


@dataclass
class FeatureService:
    """Answers reads. It does no I/O itself: `read` is a flow that a connection drives."""

    clock: Clock = field(default_factory=SystemClock)
    catalog: Catalog | None = None
    freshness: Freshness = field(default_factory=Freshness)
    last_known: LastKnown = field(default_factory=LastKnown)
    _plans: dict[object, ReadPlan] = field(default_factory=dict)
    _covers: dict[tuple[int, str], Mapping[int, Cover]] = field(default_factory=dict)
    _without_total: set[tuple[str, int]] = field(default_factory=set)
    _ledgers: dict[str, tuple[Marks, Cover]] = field(default_factory=dict)

    # ------------------------------------------------------------ reading
    def read(self, request: FeaturesRequest) -> Flow[Answer]:
        """The answer. Raises BadRequest, UnknownName, NotReady, BeyondRetention, BehindToken,
        StoreUnavailable, DataLoss, CodecError."""
        try:
            answer = yield from self._attempts(request)
        except (StoreUnavailable, NotReady) as error:
            return self._instead(request, error)
        if request.feature_set is not None and request.at_us is None:
            self.last_known.keep(answer, self._selection(request))
        return answer

    def load(self) -> Flow[Catalog]:
        """The catalog of the deployment that the store runs now. NotReady where there is none."""
        for _ in range(ATTEMPTS):
            yield Generation()
            try:
                reply: ReadReply = yield Read(())
            except IncarnationChanged:
                yield Reopen()
                continue
            marks = reply.marks
            if self.catalog is not None and self.catalog.stands(marks):
                return self.catalog
            manifest: str | None = None
            if marks.units:
                manifest = yield Manifest(marks.units)
            if manifest is None:
                self.catalog = None
                raise NotReady(
                    "nothing is deployed on this store",
                    progress=0.0,
                    next_step="deploy the project: slicewise apply",
                )
            deployment = Deployment.from_json(manifest)
            self._forget(marks)
            self.catalog = Catalog.of(deployment, marks)
            return self.catalog
        raise StoreUnavailable("the store's marks do not stand still", next_step="ask again")

    def _attempts(self, request: FeaturesRequest) -> Flow[Answer]:
        last: StoreUnavailable | None = None
        for attempt in range(ATTEMPTS):
            try:
                answer = yield from self._attempt(request)
            except IncarnationChanged as error:
                last = error
                self.catalog = None
                yield Reopen()
                continue
            except StoreUnavailable as error:
                # Reading changes nothing, so it may be tried once more, on a new connection.
                if attempt:
                    raise
                last = error
                continue
            if answer is not None:
                return answer
        raise last or StoreUnavailable(
            "the deployment or its compacted days changed with every attempt",
            next_step="ask again",
        )

    def _attempt(self, request: FeaturesRequest) -> Flow[Answer | None]:
        """None: plan again."""
        catalog = self.catalog
        if catalog is None:
            catalog = yield from self.load()
        generation: int = yield Generation()
        if generation != catalog.generation:
            self.catalog = None
            return None
        try:
            selection = catalog.select(request.features, request.feature_set)
        except UnknownName:
            # it may have been deployed since: what does not exist is told by the newest catalog
            if (yield from self.load()) is not catalog:
                return None
            raise
        mode: ReadMode = "live" if request.at_us is None else "at"
        t_us = self.clock.now_us() if request.at_us is None else request.at_us
        planned = self._plan(catalog, selection, request, mode, t_us)
        reply: ReadReply = yield Read(planned.reads)
        marks = reply.marks
        if not catalog.stands(marks):
            self.catalog = None
            return None
        self.freshness.saw(catalog, marks, reply.time_us)
        _check_ready(selection, marks)
        _check_kept(planned.plans, mode, t_us, reply.time_us)
        merged = []
        for part, plan in zip(selection.parts, planned.plans, strict=True):
            stored = _stored(part, planned, reply, selection)
            one = yield from self._merge(plan, part, stored, len(request.entities), catalog, marks)
            merged.append(one)
        stale = [(m.plan.unit.storage_fingerprint, d) for m in merged for d in m.stale_days]
        if stale:
            self._read_by_hour(stale)
            return None
        if request.min_token:
            _check_min_token(request, merged)
        freshness = self.freshness.of(selection)
        return _answer(request, selection, mode, t_us, merged, freshness)

    def _plan(
        self,
        catalog: Catalog,
        selection: Selection,
        request: FeaturesRequest,
        mode: ReadMode,
        t_us: int,
    ) -> _Planned:
        plans = tuple(self._plan_of(selection, part, mode, t_us) for part in selection.parts)
        spread = {source: catalog.partitions(source) for _, s, source in selection.groups if s}
        groups = entity_tags(selection, request.entities, spread)
        generation = catalog.generation
        reads: list[EntityRead] = []
        targets: list[tuple[int, int, int | None]] = []
        for number, group in enumerate(groups):
            members = [
                (part.unit.storage_fingerprint, plan)
                for part, plan in zip(selection.parts, plans, strict=True)
                if part.group == number
            ]
            for partition, tags in group:
                for entity, tag in enumerate(tags):
                    reads.append(
                        EntityRead(
                            tuple(
                                UnitRead(
                                    keys.hot_key(generation, tag, unit),
                                    tuple((keys.day_key(generation, tag, unit, d.day), d.names) for d in plan.days),
                                )
                                for unit, plan in members
                            )
                        )
                    )
                    targets.append((number, entity, partition))
        return _Planned(plans, tuple(reads), tuple(targets))

    def _plan_of(self, selection: Selection, part: Part, mode: ReadMode, t_us: int) -> ReadPlan:
        unit = part.unit
        key = (selection, unit.storage_fingerprint, mode, plan_key(unit, t_us))
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            days = frozenset(d for u, d in self._without_total if u == unit.storage_fingerprint)
            found = self._plans[key] = plan_read(unit, part.features, mode, t_us, days)
        return found

    def _merge(
        self,
        plan: ReadPlan,
        part: Part,
        stored: Sequence[Stored],
        entities: int,
        catalog: Catalog,
        marks: Marks,
    ) -> Flow[Merged]:
        source = part.unit.source
        for known in (True, False):
            where = (catalog.generation, source)
            if where not in self._covers or not known:
                # What a seq stands for never changes, so it may be learned after the data.
                self._covers[where] = yield Covers(source)
            start = marks.starts.get(part.unit.storage_fingerprint, Cover())
            base = Base(self._ledger(catalog, part, marks), start, self._covers[where])
            try:
                return merge(plan, stored, entities, base)
            except KeyError:
                if not known:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _ledger(self, catalog: Catalog, part: Part, marks: Marks) -> Cover:
        found = self._ledgers.get(part.source_topic)
        if found is None or found[0] is not marks:
            found = (marks, catalog.ledger_of(marks, part.source_topic))
            self._ledgers[part.source_topic] = found
        return found[1]

    def _read_by_hour(self, stale: Sequence[tuple[str, int]]) -> None:
        # Until the day's total is written again, its hours are read at once.
        if len(self._without_total) >= WITHOUT_TOTAL:
            self._without_total.clear()
        self._without_total.update(stale)
        self._plans.clear()

    def retry_totals(self) -> None:
        """Asks for day totals again; to be called now and then, since compaction writes them."""
        if self._without_total:
            self._without_total.clear()
            self._plans.clear()

    def _forget(self, marks: Marks) -> None:
        self._plans.clear()
        self._without_total.clear()
        self._ledgers.clear()
        self._covers = {k: v for k, v in self._covers.items() if k[0] == marks.generation}

    # ------------------------------------------------------------ failure
    def _selection(self, request: FeaturesRequest) -> Selection:
        assert self.catalog is not None
        return self.catalog.select(request.features, request.feature_set)

    def _instead(self, request: FeaturesRequest, error: StoreUnavailable | NotReady) -> Answer:
        """What the feature set declares for a store that does not answer; else the error."""
        if request.feature_set is None or self.catalog is None or request.at_us is not None:
            raise error
        selection = self._selection(request)
        now_us = self.clock.now_us()
        found: Answer | None = None
        if selection.on_failure == "stale":
            found = self.last_known.answer(request, selection, now_us)
        elif selection.on_failure == "default":
            found = defaults_of(request, selection, now_us)
        if found is None:
            raise error
        return found


def _stored(part: Part, planned: _Planned, reply: ReadReply, selection: Selection) -> list[Stored]:
    position = sum(other.group == part.group for other in selection.parts[: selection.parts.index(part)])
    return [
        Stored(entity, partition, units[position].hot, units[position].days)
        for (group, entity, partition), units in zip(planned.targets, reply.entities, strict=True)
        if group == part.group
    ]


def _check_ready(selection: Selection, marks: Marks) -> None:
    for part in selection.parts:
        name = part.unit.storage_fingerprint
        if name not in marks.ready:
            done, total = marks.building.get(name, (0, 0))
            progress = done / total if total else 0.0
            raise NotReady(
                f"view {part.unit.view!r} is building, {progress:.0%}",
                progress=progress,
                where=f"unit {name}",
                next_step="ask again when its history is built",
            )


def _check_kept(plans: Sequence[ReadPlan], mode: ReadMode, t_us: int, now_us: int) -> None:
    if mode == "at" and t_us > now_us:
        raise BadRequest(
            f"{instant_text(t_us)} lies in the future",
            where="at",
            expected=f"at most the store's time, {instant_text(now_us)}",
            next_step="leave `at` out for the present",
        )
    for plan in plans:
        kept = kept_from_us(now_us, plan.unit.retention_us, plan.unit.slice_us)
        if plan.start_us < kept:
            earliest = max(earliest_at(plan.unit, feature, kept) for feature in plan.features)
            raise BeyondRetention(
                f"view {plan.unit.view!r} is kept from {instant_text(kept)}, "
                f"a window starts at {instant_text(plan.start_us)}",
                where="at",
                earliest_at_us=earliest,
                expected=f"at least {instant_text(earliest)}",
                next_step="ask later times here, earlier ones of the archive (training sets)",
            )


def earliest_at(unit: Unit, feature: PlannedFeature, kept_us: int) -> int:
    """The first `at` at which the feature's window starts at or after kept_us."""
    window = feature.window
    if window.kind == "sliding":
        return ceil(kept_us, resolution(window, unit.slice_us)) + window.length_us
    complete = ceil(kept_us + window.length_us, window.hop_us)
    return complete - window.hop_us if window.open else complete


def _check_min_token(request: FeaturesRequest, merged: Sequence[Merged]) -> None:
    for wanted in request.min_token:
        for one in merged:
            if one.plan.unit.storage_fingerprint != wanted.unit:
                continue
            for base, ahead in zip(one.base, one.ahead, strict=True):
                behind = tokens.missing_places(wanted, base, ahead, one.plan.hours)
                if behind:
                    topic, partition = behind[0]
                    raise BehindToken(
                        "the store does not yet contain all that min_token contains",
                        retry_after_s=1.0,
                        where=f"topic {topic}, partition {partition}",
                        next_step="ask again, or without min_token",
                    )


def _answer(
    request: FeaturesRequest,
    selection: Selection,
    mode: str,
    t_us: int,
    merged: Sequence[Merged],
    freshness: Any,
) -> Answer:
    refs, n = selection.refs, len(request.entities)
    columns: list[list[Any]] = [[]] * len(refs)
    bounds: dict[str, tuple[int, int]] = {}
    errors: list[dict[str, str]] = [{} for _ in range(n)]
    for part, one in zip(selection.parts, merged, strict=True):
        plan, windows = one.plan, len(one.plan.intervals)
        finished: dict[int, list[Any]] = {}
        for i, position in enumerate(part.positions):
            number, interval = plan.finisher_of[i], plan.interval_of[i]
            values = finished.get(number)
            if values is None:
                convert = selection.converters[position]
                values = finished[number] = convert(one.finished[number].values)
            columns[position] = values[interval::windows]
            bounds[refs[position]] = plan.intervals[interval]
            failed = one.finished[number].errors
            for row, code in failed.items() if failed else ():
                if row % windows == interval:
                    errors[row // windows][refs[position]] = code
    if selection.defaults is not None:
        for position, default in enumerate(selection.defaults):
            if default is not None:
                columns[position] = [default if v is None else v for v in columns[position]]
    rows = list(zip(*columns, strict=True))
    results = tuple(
        EntityAnswer(entity, rows[i], tokens.join([one.token(i) for one in merged]), errors[i])
        for i, entity in enumerate(request.entities)
    )
    flags = ("overflow",) if any(errors) else ()
    ordered = {ref: bounds[ref] for ref in refs}
    return Answer(refs, mode, t_us, ordered, results, freshness, flags, selection.doubles)
