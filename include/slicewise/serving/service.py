"""One service object answers every read; the ledger value of an answer comes with its data.

A flow (`read`) plans, asks the store once, and merges. It asks again only where the reply shows
that the plan was made under other marks, or that a day's total is out of date.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from slicewise import token as tokens
from slicewise.aggregates.few import Listed
from slicewise.clock import Clock, SystemClock
from slicewise.cover import Cover
from slicewise.errors import (
    BadRequest,
    BehindToken,
    BeyondRetention,
    DataLoss,
    IncarnationChanged,
    NotReady,
    StoreUnavailable,
    UnknownName,
)
from slicewise.features.plan import Deployment
from slicewise.features.unit import PlannedFeature, Unit
from slicewise.merge import Base, JointPlan, Merged, Stored, merge
from slicewise.merge_known import Known
from slicewise.merge_plan import ReadMode, ReadPlan, plan_key, plan_read
from slicewise.serving.answer import Answer, Bounds, EntityAnswer, SourceFreshness
from slicewise.serving.catalog import Catalog, Part, Selection, entity_tags
from slicewise.serving.fallback import LastKnown, defaults_of
from slicewise.serving.freshness import Freshness
from slicewise.serving.requests import FeaturesRequest, instant_text
from slicewise.serving.steps import Covers, Flow, Generation, Manifest, Read, Reopen
from slicewise.slices import ceil, resolution
from slicewise.stores.decisions import kept_from_us
from slicewise.stores.ports import Marks, ReadReply, TagRead
from slicewise.stores.shapes import ReadShape, UnitShape

ATTEMPTS = 6
"""Replans of one request before it is given up: each has a cause that passes."""
PLANS = 500
"""Plans that are remembered; each can know megabytes of field names."""
WITHOUT_TOTAL = 10_000


@dataclass(frozen=True, eq=False)
class _Planned:
    """A selection at one time: its plans together, and what they read under each group's tag."""

    joint: JointPlan
    shapes: tuple[ReadShape, ...]
    """Per group what is read of its units under a tag."""
    kept: tuple[tuple[ReadPlan, int], ...]
    """Per unit the plan, and how long before the store's time it may start."""
    bounds: Bounds
    """Per feature, in the order of the selection."""
    places: tuple[int, ...]
    """Per feature, where the value of one entity stands among those of all finishes."""


@dataclass
class FeatureService:
    """Answers reads. It does no I/O itself: `read` is a flow that a connection drives."""

    clock: Clock = field(default_factory=SystemClock)
    catalog: Catalog | None = None
    freshness: Freshness = field(default_factory=Freshness)
    last_known: LastKnown = field(default_factory=LastKnown)
    known: Known = field(default_factory=Known)
    _declared: Catalog | None = None
    """The newest catalog that there was: what feature sets declare for a store that is away or empty."""
    _plans: dict[object, tuple[object, _Planned]] = field(default_factory=dict)
    """The newest live plan of a selection, and plans of past instants; each with its place in time."""
    _covers: dict[tuple[int, str], Mapping[int, Cover]] = field(default_factory=dict)
    _without_total: set[tuple[str, int]] = field(default_factory=set)
    _bases: dict[str, tuple[Marks, Mapping[int, Cover], Base]] = field(default_factory=dict)

    # ------------------------------------------------------------ reading
    def read(self, request: FeaturesRequest) -> Flow[Answer]:
        """The answer. Raises BadRequest, UnknownName, NotReady, BeyondRetention, BehindToken,
        StoreUnavailable, DataLoss, CodecError."""
        try:
            answer = yield from self._attempts(request)
        except (StoreUnavailable, NotReady) as error:
            return self._instead(request, error)
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
            catalog = Catalog.of(deployment, marks)
            # before the first answer under it: which windows lack events is part of an answer
            yield from self.freshness.listen(catalog)
            self.catalog = catalog
            return catalog
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
            except DataLoss:
                # Between the data and the covers of its seqs, an hour may have been compacted to
                # another seq, and the one that was read forgotten.
                if attempt:
                    raise
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
        self._declared = catalog
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
        planned = self._planned(catalog, selection, mode, t_us)
        targets, reads = _reads(catalog, selection, planned, request)
        reply: ReadReply = yield Read(reads)
        marks = reply.marks
        if not catalog.stands(marks):
            self.catalog = None
            return None
        self.freshness.saw(catalog, marks, reply.time_us)
        if request.min_token:
            _check_named(request, selection)
        _check_ready(selection, marks)
        _check_kept(planned, mode, t_us, reply.time_us)
        stored = [
            [
                Stored(entity, partition, units[part.position].hot, units[part.position].days)
                for (group, entity, partition), units in zip(targets, reply.entities, strict=True)
                if group == part.group
            ]
            for part in selection.parts
        ]
        merged = yield from self._merge(catalog, planned, selection, stored, len(request.entities), marks)
        if not merged.complete:
            self._read_by_hour(merged)
            return None
        if request.min_token:
            _check_min_token(request, merged)
        freshness = self.freshness.of(selection)
        answer = _answer(request, selection, mode, t_us, planned, merged, freshness)
        if self.freshness.holes and (lacking := self.freshness.incomplete(selection, planned.bounds)):
            answer = replace(answer, incomplete=lacking, flags=(*answer.flags, "incomplete"))
        if mode == "live":
            # under the selection that it was read with: another read may have brought a newer catalog
            self.last_known.keep(answer, selection)
        return answer

    def _planned(self, catalog: Catalog, selection: Selection, mode: ReadMode, t_us: int) -> _Planned:
        tick = tuple([plan_key(part.unit, t_us) for part in selection.parts])
        # The present does not come back: of a selection only the newest live plan is kept.
        key: object = selection if mode == "live" else (selection, tick)
        found = self._plans.get(key)
        if found is not None and found[0] == tick:
            return found[1]
        if found is not None:
            del self._plans[key]
        elif len(self._plans) >= PLANS:
            del self._plans[next(iter(self._plans))]
        planned = _plan(catalog, selection, mode, t_us, self._without_total)
        self._plans[key] = (tick, planned)
        return planned

    def _merge(
        self,
        catalog: Catalog,
        planned: _Planned,
        selection: Selection,
        stored: Sequence[Sequence[Stored]],
        entities: int,
        marks: Marks,
    ) -> Flow[Merged]:
        for again in (False, True):
            for part in selection.parts:
                where = (marks.generation, part.unit.source)
                if again or where not in self._covers:
                    # What a seq stands for never changes: it may be learned after the data.
                    self._covers[where] = yield Covers(part.unit.source)
            bases = [self._base(catalog, part, marks) for part in selection.parts]
            try:
                return merge(planned.joint, stored, entities, bases, known=self.known)
            except KeyError as error:
                if again:
                    raise DataLoss(
                        f"nothing says what archive seq {error} stands for",
                        next_step="register the archive's covers again",
                    ) from error
        raise AssertionError("the second attempt returns or raises")

    def _base(self, catalog: Catalog, part: Part, marks: Marks) -> Base:
        """Kept while replies bring the same marks: equal marks are one object per connection.

        catalog: the read's own; another read may have found it void meanwhile.
        """
        name = part.unit.storage_fingerprint
        covers = self._covers[marks.generation, part.unit.source]
        found = self._bases.get(name)
        if found is None or found[0] is not marks or found[1] is not covers:
            ledger = catalog.ledger_of(marks, part.source_topic)
            base = Base(ledger, marks.starts.get(name, Cover()), covers)
            found = self._bases[name] = (marks, covers, base)
        return found[2]

    def _read_by_hour(self, merged: Merged) -> None:
        units = [plan.unit.storage_fingerprint for plan in merged.joint.plans]
        stale = [(u, d) for u, days in zip(units, merged.stale_days, strict=True) for d in days]
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
        self._bases.clear()
        self._covers = {k: v for k, v in self._covers.items() if k[0] == marks.generation}

    # ------------------------------------------------------------ failure
    def _instead(self, request: FeaturesRequest, error: StoreUnavailable | NotReady) -> Answer:
        """What the feature set declares for a store that does not answer; else the error."""
        catalog = self.catalog or self._declared
        if request.feature_set is None or catalog is None or request.at_us is not None or request.min_token:
            # a token asks for events by name: neither memory nor a default holds them
            raise error
        selection = catalog.select(request.features, request.feature_set)
        now_us = self.clock.now_us()
        found: Answer | None = None
        if selection.on_failure == "stale":
            found = self.last_known.answer(request, selection, now_us)
        elif selection.on_failure == "default":
            found = defaults_of(request, selection, now_us)
        if found is None:
            raise error
        return found


def _plan(
    catalog: Catalog,
    selection: Selection,
    mode: ReadMode,
    t_us: int,
    without_total: Collection[tuple[str, int]],
) -> _Planned:
    plans = []
    for part in selection.parts:
        name = part.unit.storage_fingerprint
        days = frozenset(day for unit, day in without_total if unit == name)
        plans.append(plan_read(part.unit, part.features, mode, t_us, days))
    joint = JointPlan(tuple(plans))
    both = list(zip(selection.parts, plans, strict=True))
    units = [
        (p.group, UnitShape(catalog.names[p.unit.storage_fingerprint], tuple((d.day, d.names) for d in plan.days)))
        for p, plan in both
    ]
    shapes = tuple(
        ReadShape(catalog.generation, tuple(unit for of, unit in units if of == group))
        for group in range(len(selection.groups))
    )
    found = {
        selection.refs[position]: plan.intervals[plan.interval_of[i]]
        for part, plan in both
        for i, position in enumerate(part.positions)
    }
    kept = tuple((plan, plan.unit.retention_us) for plan in plans)
    at = {
        position: place
        for part, places in zip(selection.parts, joint.of_one, strict=True)
        for position, place in zip(part.positions, places, strict=True)
    }
    bounds = Bounds({ref: found[ref] for ref in selection.refs})
    return _Planned(joint, shapes, kept, bounds, tuple(at[i] for i in range(len(selection.refs))))


def _reads(
    catalog: Catalog, selection: Selection, planned: _Planned, request: FeaturesRequest
) -> tuple[list[tuple[int, int, int | None]], list[TagRead]]:
    """Per tag (group, entity, partition), and what is read under it."""
    spread = {source: catalog.partitions(source) for _, s, source in selection.groups if s}
    tags_of_groups = entity_tags(selection, request.entities, spread)
    targets: list[tuple[int, int, int | None]] = []
    reads: list[TagRead] = []
    for group, by_partition in enumerate(tags_of_groups):
        shape = planned.shapes[group]
        for partition, tags in by_partition:
            for entity, tag in enumerate(tags):
                targets.append((group, entity, partition))
                reads.append(TagRead(shape, tag))
    return targets, reads


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


def _check_kept(planned: _Planned, mode: ReadMode, t_us: int, now_us: int) -> None:
    if mode == "at" and t_us > now_us:
        raise BadRequest(
            f"{instant_text(t_us)} lies in the future",
            where="at",
            expected=f"at most the store's time, {instant_text(now_us)}",
            next_step="leave `at` out for the present",
        )
    for plan, retention_us in planned.kept:
        kept = kept_from_us(now_us, retention_us, plan.unit.slice_us)
        if plan.start_us < kept:
            raise _beyond(plan, mode, t_us, kept, now_us)


def _beyond(plan: ReadPlan, mode: ReadMode, t_us: int, kept: int, now_us: int) -> BeyondRetention:
    earliest = max(earliest_at(plan.unit, feature, kept) for feature in plan.features)
    short = [
        f"{plan.unit.view}:{feature.column}"
        for feature, interval in zip(plan.features, plan.interval_of, strict=True)
        if plan.intervals[interval][0] < kept
    ]
    what = (
        f"view {plan.unit.view!r} is kept from {instant_text(kept)}, "
        f"the window of {', '.join(short)} starts at {instant_text(plan.start_us)}"
    )
    if mode == "at":
        return BeyondRetention(
            what,
            where="at",
            earliest_at_us=earliest,
            expected=f"at least {instant_text(earliest)}",
            next_step="ask later times here, earlier ones of the archive (training sets)",
        )
    return BeyondRetention(
        what,
        where=f"live window of {short[0]}",
        earliest_at_us=earliest,
        expected=f"a serving clock near the store's, {instant_text(now_us)}; this one says {instant_text(t_us)}",
        next_step="set the clocks of serving and store (NTP); nothing in the request can mend it",
    )


def earliest_at(unit: Unit, feature: PlannedFeature, kept_us: int) -> int:
    """The first `at` at which the feature's window starts at or after kept_us."""
    window = feature.window
    if window.kind == "sliding":
        return ceil(kept_us, resolution(window, unit.slice_us)) + window.length_us
    complete = ceil(kept_us + window.length_us, window.hop_us)
    return complete - window.hop_us if window.open else complete


def _check_named(request: FeaturesRequest, selection: Selection) -> None:
    """A token that says nothing of a unit cannot bound how old its answer may be."""
    named = {wanted.unit for wanted in request.min_token}
    for part in selection.parts:
        if part.unit.storage_fingerprint not in named:
            raise BadRequest(
                f"min_token says nothing of view {part.unit.view!r}",
                where=f"min_token, unit {part.unit.storage_fingerprint}",
                expected="a token of an answer that read every unit asked for now; joined tokens have all of theirs",
                next_step="join the tokens of several answers with '.', ask for this view by itself, "
                "or without min_token (a view that was built anew has new tokens)",
            )


def _check_min_token(request: FeaturesRequest, merged: Merged) -> None:
    for wanted in request.min_token:
        for number, plan in enumerate(merged.joint.plans):
            if plan.unit.storage_fingerprint != wanted.unit:
                continue
            for base, ahead in zip(merged.base[number], merged.ahead[number], strict=True):
                behind = tokens.missing_places(wanted, base, ahead, plan.hours)
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
    planned: _Planned,
    merged: Merged,
    freshness: tuple[SourceFreshness, ...],
) -> Answer:
    refs, n = selection.refs, len(request.entities)
    parts = range(len(selection.parts))
    if n == 1 and all(type(found) is Listed and not found.errors for found in merged.finished):
        whole = list(chain.from_iterable([found.values for found in merged.finished]))
        row = tuple([whole[place] for place in planned.places])
        if selection.defaults is not None:
            row = tuple([d if v is None else v for v, d in zip(row, selection.defaults, strict=True)])
        token = tokens.join([merged.token(part, 0) for part in parts])
        (entity_of,) = request.entities
        one = (EntityAnswer(entity_of, row, token),)
        return Answer(refs, mode, t_us, planned.bounds, one, freshness, (), selection.doubles)
    columns: list[list[Any]] = [[]] * len(refs)
    errors: list[dict[str, str]] = [{} for _ in range(n)]
    lists: dict[int, list[Any]] = {}
    for part, slots in zip(selection.parts, merged.joint.slots, strict=True):
        for position, slot in zip(part.positions, slots, strict=True):
            values = lists.get(slot.finish)
            finished = merged.finished[slot.finish]
            if values is None:
                values = finished.values
                if not isinstance(finished, Listed):
                    values = selection.converters[position](values)
                lists[slot.finish] = values
            first = n * slot.first + slot.interval
            columns[position] = values[first : n * slot.first + n * slot.stride : slot.stride]
            if finished.errors:
                for entity in range(n):
                    code = finished.errors.get(first + entity * slot.stride)
                    if code is not None:
                        errors[entity][refs[position]] = code
    if selection.defaults is not None:
        for position, default in enumerate(selection.defaults):
            if default is not None:
                columns[position] = [default if v is None else v for v in columns[position]]
    rows = list(zip(*columns, strict=True))
    results = tuple(
        EntityAnswer(entity, rows[i], tokens.join([merged.token(part, i) for part in parts]), errors[i])
        for i, entity in enumerate(request.entities)
    )
    flags = ("overflow",) if any(errors) else ()
    return Answer(refs, mode, t_us, planned.bounds, results, freshness, flags, selection.doubles)
