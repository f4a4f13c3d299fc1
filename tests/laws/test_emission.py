"""The log alone decides what is published: an oracle over raw events says it, and no batch or
restart changes it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.aggregates import Rows
from slicewise.emission.ticks import Correction, EmittedView, Tick, emitted_views
from slicewise.emission.view import (
    QUIET_US,
    Progress,
    Records,
    Taken,
    ViewEmission,
    resumed,
    trusted,
)
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.periodic import Periodic
from slicewise.windows.window import Window
from tests.support.inputs.seeds import seeds

S = 1_000_000
BEGIN = 1_767_225_600 * S
TOPIC = "0123456789abcdef0123456789abcdef"
MOST_AHEAD = 2 * S
WAIT = S // 2
CORRECTIONS = 15 * S
WINDOWS = ("10s", sw.tumbling("10s"), sw.hopping("20s", every="5s"), sw.tumbling("30s"))
USERS = ("a", "b", "größe", 'q"\\')


class Event(NamedTuple):
    partition: int
    offset: int
    kafka_time: int
    time: int
    user: str
    x: float | None


def view_of(*windows: Any, entity: Sequence[str] = ("user",), **emit: str) -> EmittedView:
    source = sw.KafkaSource(
        "plays",
        schema={"user": "string", "x": "double", "t": "timestamp_us"},
        timestamp="t",
        max_ahead="2s",
    )
    given = {"wait": "500ms", "corrections": "15s", **emit}
    view = sw.FeatureView(
        "v",
        source=source,
        entity=entity,
        features=[
            sw.Feature("n", sw.count(), list(windows)),
            sw.Feature("s", sw.sum("x"), list(windows)),
        ],
        emit=sw.Emit("out", **given),
    )
    [emitted_view] = emitted_views(plan(Project.of("p", [view])), "plays")
    return emitted_view


def events_of(seed: int, n: int = 50) -> list[Event]:
    """Two partitions, Kafka times that mostly rise, event times up to a minute late and a little
    ahead."""
    rng = random.Random(seed)
    events, offsets = [], [0, 0]
    clock = BEGIN
    for _ in range(n):
        clock += rng.choice((0, S // 10, S, S, 3 * S, 25 * S if rng.random() < 0.05 else S))
        partition = rng.randrange(2)
        late = rng.choice((0, 0, 0, -S, S // 3, 5 * S, 12 * S, 30 * S))
        kafka_time = clock - rng.choice((0, 0, 0, S // 2))
        # gaps, as transactions leave
        offset = offsets[partition] = offsets[partition] + rng.choice((1, 1, 1, 2))
        x = rng.choice((0.1, 1e300, -1e300, 1.0, None, 2.5, 1e-5))
        events.append(Event(partition, offset, kafka_time, kafka_time - late, rng.choice(USERS), x))
    return events


# ------------------------------------------------------------------ the oracle
def step_of(window: Window) -> int:
    return window.hop_us if isinstance(window, Periodic) else S


def cut(events: Sequence[Event], instant: int) -> dict[int, int]:
    """Per partition the first offset whose Kafka time has reached the instant, else the end."""
    results = {}
    for partition in (0, 1):
        own = sorted((e for e in events if e.partition == partition), key=lambda e: e.offset)
        later = [e.offset for e in own if e.kafka_time >= instant + WAIT]
        results[partition] = later[0] if later else (own[-1].offset + 1 if own else 0)
    return results


def answers(
    events: Sequence[Event], cuts: dict[int, int], window: Window, end: int
) -> dict[str, tuple[Any, Any]]:
    """Per user with events in the window: count, and the exact sum."""
    results: dict[str, list[float | None]] = {}
    for e in events:
        if e.offset < cuts[e.partition] and end - window.length_us <= e.time < end:
            results.setdefault(e.user, []).append(e.x)
    return {
        user: (len(xs), total([x for x in xs if x is not None])) for user, xs in results.items()
    }


def total(xs: list[float]) -> float | None:
    return math.fsum(xs) if xs else None


def oracle(
    events: Sequence[Event], windows: Sequence[Window], since: int, until: int
) -> list[tuple[Any, ...]]:
    """(instant, "tick" or "correction", window, end, user, values, changed or old values), sorted
    per instant."""
    out: list[tuple[Any, ...]] = []
    instants = range(since + S, until + 1, S)
    before = cut(events, since)
    last = since
    nothing = (0, None)
    for instant in instants:
        cuts = cut(events, instant)
        rows: list[tuple[Any, ...]] = []
        for window in windows:
            step = step_of(window)
            first = max(since, instant - CORRECTIONS) // step * step + step
            changed_before: set[str] = set()
            for end in range(first, last // step * step + 1, step):
                old, new = answers(events, before, window, end), answers(events, cuts, window, end)
                # without a record of its own, a window would be taken for the one before it
                one_step_before = answers(events, cuts, window, end - step)
                changed = {user for user in new if new[user] != old.get(user, nothing)}
                published_users = changed | {
                    u
                    for u in changed_before
                    if new.get(u, nothing) != one_step_before.get(u, nothing)
                }
                rows += [
                    (
                        instant,
                        "correction",
                        window.column_suffix(),
                        end,
                        user,
                        new.get(user, nothing),
                        old.get(user, nothing),
                    )
                    for user in published_users
                ]
                changed_before = changed
            if instant % step == 0:
                now = answers(events, cuts, window, instant)
                shown: dict[str, Any] = {}
                if instant - step > since:
                    # corrected up to the last instant, that is: also by what this one brings, if it
                    # is corrected still
                    latest = cuts if instant - step > instant - CORRECTIONS else before
                    shown = answers(events, latest, window, instant - step)
                rows += [
                    (
                        instant,
                        "tick",
                        window.column_suffix(),
                        instant,
                        user,
                        now.get(user, nothing),
                        now.get(user, nothing) != shown.get(user, nothing),
                    )
                    for user in {*now, *shown}
                ]
        out += sorted(rows, key=repr)
        before, last = cuts, instant
    return out


# ------------------------------------------------------------------ the emission
def records(
    events: Sequence[Event], partition: int, units: Sequence[StorageUnit], end: int
) -> Records:
    n = len(events)
    rows = Rows(
        np.array([e.time for e in events], np.int64),
        np.full(n, int(TOPIC[:16], 16), np.uint64),
        np.full(n, int(TOPIC[16:], 16), np.uint64),
        np.full(n, partition, np.int32),
        np.array([e.offset for e in events], np.int64),
        {"x": pa.array([e.x for e in events], pa.float64())},
    )
    entities = (
        pa.table({"user": pa.array([e.user for e in events], pa.string())})
        if units[0].entity
        else pa.table({})
    )
    taken = {unit.storage_fingerprint: Taken(rows, entities) for unit in units}
    return Records(
        partition, rows.offset, np.array([e.kafka_time for e in events], np.int64), taken, end
    )


def published(
    emitted: EmittedView,
    events: Sequence[Event],
    progress: Progress,
    until: int,
    rng: random.Random,
    stop_after: int | None = None,
) -> tuple[list[tuple[Any, ...]], Progress]:
    """In batches of random size; the progress after the last instant, or after `stop_after` of
    them."""
    reach = ViewEmission(emitted, TOPIC, {0: 0, 1: 0}, progress).reach_us
    start, left = {}, {}
    for partition in (0, 1):
        own = sorted((e for e in events if e.partition == partition), key=lambda e: e.offset)
        young = [e.offset for e in own if e.kafka_time >= progress.instant_us - reach - MOST_AHEAD]
        applied = progress.offset_vector.get((TOPIC, partition))
        start[partition] = min([applied, *young[:1]])
        left[partition] = [e for e in own if e.offset >= start[partition]]
    emission = ViewEmission(emitted, TOPIC, start, progress)
    out: list[tuple[Any, ...]] = []
    ends = {p: rest[-1].offset + 1 if rest else start[p] for p, rest in left.items()}
    count = 0
    while any(left.values()):
        partition = rng.choice([p for p in left if left[p]])
        n = rng.randint(1, 30)
        batch, left[partition] = left[partition][:n], left[partition][n:]
        emission.take(records(batch, partition, emitted.units, batch[-1].offset + 1))
        if not any(left.values()):
            for p in ends:
                emission.read_to(p, ends[p], until + WAIT + QUIET_US)
        for step, outputs in emission.advance():
            out += sorted(
                (line for output in outputs for line in lines(step.instant_us, output)), key=repr
            )
            count += 1
            progress = step
            if count == stop_after:
                return out, progress
    return out, progress


def lines(instant: int, output: Tick | Correction) -> list[tuple[Any, ...]]:
    suffix = output.window.column_suffix()
    users = (
        output.entities["user"].to_pylist()
        if output.entities.num_columns
        else [None] * output.values.num_rows
    )
    values = list(zip(*(output.values[f"{f}_{suffix}"].to_pylist() for f in "ns"), strict=True))
    if isinstance(output, Tick):
        rest = [bool(flag) for flag in output.changed]
        return [
            (instant, "tick", suffix, output.end_us, user, value, changed)
            for user, value, changed in zip(users, values, rest, strict=True)
        ]
    old = list(zip(*(output.old[f"{f}_{suffix}"].to_pylist() for f in "ns"), strict=True))
    return [
        (instant, "correction", suffix, end, user, value, was)
        for end, user, value, was in zip(output.ends_us.tolist(), users, values, old, strict=True)
    ]


@pytest.mark.parametrize("seed", seeds(range(4)))
def test_ticks_and_corrections_are_those_of_the_oracle_in_any_batches_and_after_any_restart(
    seed: int,
) -> None:
    print(f"seed {seed}")
    rng, events = random.Random(seed), events_of(seed)
    emitted = view_of(*WINDOWS)
    windows = [feature.window for feature in emitted.units[0].features if feature.feature == "n"]
    since = BEGIN + 7 * S
    begun = cut(events, since)
    progress = Progress(
        since, since, OffsetVector({(TOPIC, p): offset for p, offset in begun.items()})
    )
    until = max(e.kafka_time for e in events) // S * S + 40 * S
    actual, _ = published(emitted, events, progress, until, rng)
    expected = oracle(events, windows, since, until)
    kinds = {line[1] for line in expected}
    assert kinds == {"tick", "correction"}
    assert actual == expected
    again, _ = published(emitted, events, progress, until, random.Random(seed + 1))
    assert again == actual
    for stop in (1, 30):
        first, at = published(emitted, events, progress, until, rng, stop_after=stop)
        rest, _ = published(emitted, events, at, until, rng)
        assert first + rest == actual, f"after a restart at {at.instant_us}"


def test_a_global_view_is_one_entity() -> None:
    events = [event._replace(user="") for event in events_of(9)]
    emitted = view_of("10s", sw.tumbling("10s"), entity=())
    windows = [feature.window for feature in emitted.units[0].features if feature.feature == "n"]
    progress = Progress(
        BEGIN, BEGIN, OffsetVector({(TOPIC, p): offset for p, offset in cut(events, BEGIN).items()})
    )
    until = max(e.kafka_time for e in events) // S * S + 40 * S
    actual, _ = published(emitted, events, progress, until, random.Random(9))
    expected = [(*line[:4], None, *line[5:]) for line in oracle(events, windows, BEGIN, until)]
    assert actual == expected


def test_the_newest_record_of_a_window_or_else_of_the_one_before_is_the_truth() -> None:
    events = events_of(21, 80)
    emitted = view_of(*WINDOWS, corrections="10m")
    since = BEGIN + 3 * S
    progress = Progress(
        since, since, OffsetVector({(TOPIC, p): offset for p, offset in cut(events, since).items()})
    )
    until = max(e.kafka_time for e in events) // S * S + 40 * S
    result, last = published(emitted, events, progress, until, random.Random(21))
    newest = {
        (line[2], line[3], line[4]): line[5]
        for line in result
        if line[1] == "correction" or line[6]
    }
    everything = {0: 1 << 60, 1: 1 << 60}
    for window in {feature.window for feature in emitted.units[0].features}:
        step = step_of(window)
        for user in USERS:
            newest_record: tuple[Any, Any] = (0, None)
            for end in range(since // step * step + step, last.instant_us + 1, step):
                newest_record = newest.get((window.column_suffix(), end, user), newest_record)
                truth = answers(events, everything, window, end).get(user, (0, None))
                assert newest_record == truth, (window.column_suffix(), end, user)


def test_where_the_log_has_lost_its_beginning_no_window_is_published_that_lacks_events() -> None:
    """Retention took a part of partition 0, also of what was not published yet."""
    events = events_of(33, 80)
    emitted = view_of(*WINDOWS)
    begun = Progress(
        BEGIN, BEGIN, OffsetVector({(TOPIC, p): offset for p, offset in cut(events, BEGIN).items()})
    )
    until = max(e.kafka_time for e in events) // S * S + 40 * S
    whole, _ = published(emitted, events, begun, until, random.Random(1))
    own = sorted((e for e in events if e.partition == 0), key=lambda e: e.offset)
    first = own[len(own) // 2]
    left = [e for e in events if e.partition or e.offset >= first.offset]
    at = resumed(begun, emitted, MOST_AHEAD, max(e.kafka_time for e in own[: len(own) // 2 + 1]))
    assert at.since_us == at.instant_us > BEGIN
    result, _ = published(emitted, left, at, until, random.Random(2))
    ends = {(line[2], line[3], line[4], line[5]) for line in whole}
    assert result
    for line in result:
        assert line[3] > at.since_us
        assert (line[2], line[3], line[4], line[5]) in ends or line[5] == (0, None), line
    later = Progress(BEGIN, until, begun.offset_vector)
    assert resumed(later, emitted, MOST_AHEAD, BEGIN) is later


def test_a_clock_far_ahead_holds_nothing_up() -> None:
    events = [e for e in events_of(5, 40) if e.partition == 0]
    wrong = events[3]._replace(kafka_time=BEGIN + 3600 * S)
    given = [wrong if e is events[3] else e for e in events]
    emitted, until = view_of("10s"), events[-1].kafka_time // S * S + 2 * S
    progress = Progress(BEGIN, BEGIN, OffsetVector({}))

    def come(wall_us: int) -> int:
        emission = ViewEmission(emitted, TOPIC, {0: 0}, progress)
        result = records(given, 0, emitted.units, given[-1].offset + 1)
        times = trusted(result.kafka_time, wall_us)
        emission.take(Records(0, result.offset, times, result.units, result.end))
        emission.read_to(0, result.end, until + WAIT + QUIET_US)
        seen = [at for at, _ in emission.advance()]
        return seen[-1].offset_vector.get((TOPIC, 0))

    assert come(until) == given[-1].offset + 1
    assert come(BEGIN + 3600 * S) == wrong.offset, (
        "trusted, it lets its partition pass, and the rest waits"
    )


def test_instants_without_anything_are_passed_over_and_no_other() -> None:
    """A batch of markers alone, then events long ago by the wall clock: their windows are published
    all the same."""
    emitted = view_of("10s")
    at = BEGIN + 100 * S
    events = [Event(0, 7, at, at, "a", 1.0), Event(0, 9, at + 3 * S, at + 3 * S, "a", 2.0)]
    emission = ViewEmission(
        emitted, TOPIC, {0: 5}, Progress(BEGIN, BEGIN, OffsetVector({(TOPIC, 0): 5}))
    )
    emission.take(records([], 0, emitted.units, 7))
    emission.take(records(events, 0, emitted.units, 10))
    emission.read_to(0, 10, BEGIN + 200 * S)
    actual = [
        line
        for step, published in emission.advance()
        for output in published
        for line in lines(step.instant_us, output)
    ]
    windows = [feature.window for feature in emitted.units[0].features if feature.feature == "n"]
    expected = oracle([*events], windows, BEGIN, BEGIN + 198 * S)
    assert actual == expected
    assert len(actual) == 14
