"""A read that cannot be answered in full is refused, with what would be answered; it is never
answered short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewise.errors import BadRequest, BehindToken, BeyondRetention, NotReady
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import TopicPartition
from slicewise.reading.plan import ReadMode, ReadPlan
from slicewise.reading.reader import Answered, Plan
from slicewise.serving.answering.catalog import Selection
from slicewise.serving.answering.requests import FeaturesRequest, instant_text
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model.phases import Phase, waits_for
from slicewise.stores.online.rules.decisions import kept_from_us
from slicewise.windows.durations import HOUR_US

NEVER_US, EVER_US = -(1 << 62), 1 << 62


def check_ready(
    selection: Selection, metadata: StoreMetadata, phases: Mapping[str, Phase], now_us: int
) -> None:
    """Refuses a view whose history is not built yet: NotReady with its progress, and what it waits
    for if that is known. phases: per unit; now_us: the store's time."""
    for part in selection.parts:
        name = part.unit.storage_fingerprint
        if name not in metadata.ready:
            done, total = metadata.building.get(name, (0, 0))
            progress = done / total if total else 0.0
            phase = phases.get(name)
            why = "" if phase is None else f": {waits_for(phase, now_us)}"
            raise NotReady(
                f"view {part.unit.view!r} is building, {progress:.0%}{why}",
                progress=progress,
                where=f"unit {name}",
                next_step="ask again when its history is built",
            )


def kept_until_us(plan: Plan) -> int:
    """The store's time up to which it keeps all that a plan reads, or a little before: later on
    `check_kept` tells."""
    until = []
    for sliced in plan.slices.batch.plans:
        unit, total_until = sliced.unit, sliced.total_until
        if total_until is not None and sliced.lifetime_end_us < total_until * HOUR_US:
            return NEVER_US
        until.append(sliced.start_us + unit.retention_us - unit.slice_us)
    for listed in plan.events.plans:
        keeps, start_us = listed.unit.event_list, listed.start_us
        if keeps.expires and start_us is not None:
            until.append(start_us + keeps.range_us - 1)
    return min(until, default=EVER_US)


def check_kept(planned: Plan, mode: ReadMode, t_us: int, now_us: int) -> None:
    """Refuses a window that begins before what the store keeps, by the store's own time:
    BeyondRetention, BadRequest for the future."""
    if mode == "at" and t_us > now_us:
        raise BadRequest(
            f"{instant_text(t_us)} lies in the future",
            where="at",
            expected=f"at most the store's time, {instant_text(now_us)}",
            next_step="leave `at` out for the present",
        )
    for plan in planned.slices.batch.plans:
        kept = kept_from_us(now_us, plan.unit.retention_us, plan.unit.slice_us)
        if plan.start_us < kept:
            raise _beyond(plan, mode, t_us, kept, now_us, _earliest(planned, now_us))
        if plan.total_until is not None and plan.lifetime_end_us < plan.total_until * HOUR_US:
            raise _before_totals(plan, mode, plan.total_until * HOUR_US, _earliest(planned, now_us))
    for listed in planned.events.plans:
        keeps, start_us = listed.unit.event_list, listed.start_us
        if not keeps.expires or start_us is None:
            continue  # a list of rows never expires: what it lacks, its low-water mark says
        kept = kept_from_us(now_us, keeps.range_us, 1)
        if start_us < kept:
            short = next(
                i for i in range(len(listed.features)) if listed.bounds_of(i)[0] == start_us
            )
            why = f"events are kept from {instant_text(kept)}"
            raise _list_beyond(listed.unit, listed.features[short], mode, kept, why)


def check_whole(
    request: FeaturesRequest, store_answer: Answered, mode: ReadMode, now_us: int
) -> None:
    """Refuses a window that reaches events which its list no longer has, by the list's own word:
    BeyondRetention."""
    for merged in store_answer.events.lists:
        for short in merged.short:
            plan = merged.plan
            feature = plan.features[plan.span_of.index(short.span)]
            why = (
                f"the list of {dict(request.entities[short.entity])} lost events up to "
                f"{instant_text(short.low_us)}: "
                f"it keeps {plan.unit.event_list.most}"
            )
            kept = short.low_us + 1
            if plan.spans[short.span].rows:
                kept = max(kept, now_us - plan.unit.event_list.late_us)
            raise _list_beyond(plan.unit, feature, mode, kept, why)


def _list_beyond(
    unit: StorageUnit, feature: PlannedFeature, mode: ReadMode, kept_us: int, why: str
) -> BeyondRetention:
    earliest = earliest_at(unit, feature, kept_us)
    return BeyondRetention(
        (f"{unit.view}:{feature.column} reaches further back than what is kept: {why}"),
        where="at" if mode == "at" else "live window",
        earliest_at_us=earliest,
        expected=f"at least {instant_text(earliest)}",
        next_step="ask later times here, or with offline: true of the archive; a view's capacity says how many events it "
        "keeps of an entity",
    )


def _earliest(planned: Plan, now_us: int) -> int:
    """The first `at` that all windows of slices can be answered for."""
    earliest = []
    for plan in planned.slices.batch.plans:
        kept = kept_from_us(now_us, plan.unit.retention_us, plan.unit.slice_us)
        for feature in plan.features:
            if not feature.window.unbounded:
                earliest.append(earliest_at(plan.unit, feature, kept))
            elif plan.total_until is not None:
                earliest.append(plan.total_until * HOUR_US + feature.window.offset_us)
    return max(earliest)


def _beyond(
    plan: ReadPlan, mode: ReadMode, t_us: int, kept: int, now_us: int, earliest: int
) -> BeyondRetention:
    short = [
        f"{plan.unit.view}:{feature.column}"
        for feature, interval in zip(plan.features, plan.interval_of, strict=True)
        if plan.intervals[interval][0] < kept and not feature.window.unbounded
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
            next_step="ask with offline: true, which reads the archive, or build a training set",
        )
    return BeyondRetention(
        what,
        where=f"live window of {short[0]}",
        earliest_at_us=earliest,
        expected=(
            f"a serving clock near the store's, {instant_text(now_us)}; this one says "
            f"{instant_text(t_us)}"
        ),
        next_step="set the clocks of serving and store (NTP); nothing in the request can mend it",
    )


def _before_totals(plan: ReadPlan, mode: ReadMode, kept: int, earliest: int) -> BeyondRetention:
    return BeyondRetention(
        f"view {plan.unit.view!r} keeps one total of what lies before {instant_text(kept)}, "
        f"which a lifetime that ends at {instant_text(plan.lifetime_end_us)} would cut",
        where="at" if mode == "at" else "live window",
        earliest_at_us=earliest,
        expected=f"at least {instant_text(earliest)}",
        next_step="ask with offline: true, which reads the archive, or build a training set",
    )


def earliest_at(unit: StorageUnit, feature: PlannedFeature, kept_us: int) -> int:
    """The first `at` at which the feature's window starts at or after kept_us."""
    return feature.window.earliest_at(kept_us, unit.slice_us)


def check_named(request: FeaturesRequest, selection: Selection) -> None:
    """A token that says nothing of a unit cannot bound how old its answer may be."""
    named = {wanted.unit for wanted in request.min_token}
    for part in selection.parts:
        if part.unit.storage_fingerprint not in named:
            raise BadRequest(
                f"min_token says nothing of view {part.unit.view!r}",
                where=f"min_token, unit {part.unit.storage_fingerprint}",
                expected=(
                    "a token of an answer that read every unit asked for now; joined tokens have "
                    "all of theirs"
                ),
                next_step="join the tokens of several answers with '.', ask for this view by itself, "
                "or without min_token (a view that was built anew has new tokens)",
            )


def check_min_token(request: FeaturesRequest, store_answer: Answered) -> None:
    """Refuses an answer that lacks what the client has seen already: BehindToken."""
    for wanted in request.min_token:
        for number, part in enumerate(store_answer.plan.parts):
            if part.unit.storage_fingerprint == wanted.unit:
                hours = store_answer.plan.hours(number)
                for base, compacted_beyond in store_answer.contained(number):
                    _refuse_behind(tokens.missing_partitions(wanted, base, compacted_beyond, hours))


def _refuse_behind(behind: Sequence[TopicPartition]) -> None:
    if behind:
        topic, partition = behind[0]
        raise BehindToken(
            "the store does not yet contain all that min_token contains",
            retry_after_s=1.0,
            where=f"topic {topic}, partition {partition}",
            next_step="ask again, or without min_token",
        )
