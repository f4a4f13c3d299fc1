"""However rows are cut into parts, the store gets of each entity a day's hours with their total."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise import codec
from slicewise.aggregates.kernel.events import Rows
from slicewise.clock import ManualClock
from slicewise.errors import DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake import compact_run, publish_hours
from slicewise.spark.lake.compact_run import write_hours
from slicewise.spark.lake.compaction import HourJob
from slicewise.spark.lake.partials import RowShape, UnitRef, grouped
from slicewise.spark.lake.publish_hours import (
    HourRows,
    Outcomes,
    PublishHours,
    StoreRef,
    outcomes_of,
    parts_of,
)
from slicewise.spark.lake.unit_build import of_whole_days
from slicewise.stores.online import keys
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.windows.durations import DAY_US

SEED = 20_261_125
TOPIC = "0123456789abcdef0123456789abcdef"
DAY0 = 20_000
USERS = ["ann", "bob", "zoë"]
plays = sw.KafkaSource(
    "plays", schema={"user": "string", "x": "double", "t": "timestamp_us"}, timestamp="t"
)
view = sw.FeatureView(
    "heard",
    source=plays,
    entity=["user"],
    features=[
        sw.Feature("n", sw.count(), windows=["1h", "7d"]),
        sw.Feature("all", sw.sum("x"), windows=["1h", "7d"]),
    ],
)
DEPLOYMENT = plan(Project.of("p", [view]))


def unit_of() -> StorageUnit:
    (unit,) = DEPLOYMENT.units
    return unit


def committed(count: int, unit: StorageUnit | None = None) -> pa.Table:
    """Rows of two days, a row per (entity, slice), in no order."""
    chance, unit = random.Random(SEED), unit or unit_of()
    users = pa.array([chance.choice(USERS) for _ in range(count)])
    time = np.array([DAY0 * DAY_US + chance.randrange(2 * DAY_US) for _ in range(count)], np.int64)
    rows = Rows(
        time,
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
        np.zeros(count, np.int32),
        np.arange(count, dtype=np.int64),
        {"x": pa.array([chance.uniform(-9, 9) for _ in range(count)])},
    )
    shape = RowShape(unit)
    entity = pa.table({"user": users})
    groups, first, n = grouped(entity, shape.entity, time // unit.slice_us)
    partials = [part.accumulate_columns(rows, groups, n) for part in unit.layout.partials]
    taken = {"user": users.take(pa.array(first))}
    events = np.bincount(groups, minlength=n).astype(np.int64)
    late = np.zeros(n, np.int64)
    batch = shape.batch(time[first] // unit.slice_us, taken, partials, events, late)
    order = list(range(n))
    chance.shuffle(order)
    return pa.Table.from_batches([batch]).take(pa.array(order)).combine_chunks()


def published(
    table: pa.Table,
    silent: frozenset[int],
    batch_rows: int,
    monkeypatch: pytest.MonkeyPatch,
    share: float = 1.0,
) -> tuple[Outcomes, MemoryServer, int]:
    """The store after a task published these rows under archive version 1."""
    unit = unit_of()
    server = MemoryServer(ManualClock((DAY0 + 3) * DAY_US))
    store = open_memory(server)
    store.run(Initialise())
    store.run(Deploy(DEPLOYMENT, 0, {"plays": TOPIC}))
    offsets = OffsetVector({(TOPIC, 0): 10_000})
    store.run(PutArchiveVersion("plays", 1, offsets))
    monkeypatch.setattr(StoreRef, "open", lambda self: open_memory(server))  # noqa: ARG005
    where = StoreRef("redis://nowhere", store.server_run, store.store_id, {})
    hours = {int(hour): (1, offsets) for hour in np.unique(table["hour"].to_numpy())}
    ref = UnitRef(DEPLOYMENT.to_json(), unit.storage_fingerprint)
    task = PublishHours(ref, where, hours, silent, share)
    outcomes: list[dict[str, Any]] = [
        json.loads(text)
        for batch in task(iter(table.to_batches(batch_rows)))
        for text in batch["outcome"].to_pylist()
    ]
    return outcomes_of(outcomes), server, store.store_id


@pytest.mark.parametrize(
    ("part_rows", "batch_rows", "share"),
    [(1, 7, 1.0), (40, 1_000, 1.0), (10_000, 1, 1.0), (40, 1_000, 0.9)],
)
def test_each_day_has_its_hours_and_their_total_however_rows_are_cut(
    part_rows: int, batch_rows: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that is slowed, and rests after each part, publishes the same."""
    monkeypatch.setattr(publish_hours, "PART_ROWS", part_rows)
    monkeypatch.setattr(publish_hours, "SLOWED_ROWS", part_rows)
    unit, table = unit_of(), committed(600)
    outcomes, server, store_id = published(table, frozenset(), batch_rows, monkeypatch, share)
    events = table["events"].to_numpy()
    hours = table["hour"].to_numpy()
    for hour, outcome in outcomes.hours.items():
        users = set(np.asarray(table["user"])[hours == hour].tolist())
        assert outcome.entities["swapped"] == len(users)
        assert sum(row[1] for row in outcome.slices) == events[hours == hour].sum()
        assert sum(row[2] for row in outcome.slices) == (hours == hour).sum()
    assert outcomes.whole_days(outcomes.hours) == {DAY0: 3, DAY0 + 1: 3}
    assert outcomes.whole_days([*outcomes.hours, DAY0 * 24 - 1, DAY0 * 24 + 48]) == {
        DAY0: 3,
        DAY0 + 1: 3,
    }
    for user in USERS:
        (tag,) = keys.entity_tags(unit.entity, [[user]])
        for day in (DAY0, DAY0 + 1):
            key = keys.day_key(store_id, tag, unit.storage_fingerprint, day)
            fields = server.hashes[key].fields
            stored = codec.unpack_hours(fields[keys.HOURS])
            rows = [codec.unpack_total(fields[keys.hour_fields(h)[0]]).row for h in stored]
            total = codec.unpack_day(fields[keys.TOTAL])
            groups = np.zeros(len(rows), np.int64)
            assert unit.layout.combine_rows(rows, groups, 1) == [bytes(total.row)]
            assert total.digest == codec.day_digest(fields[keys.HOURS])
            of_slices = [codec.unpack_slices(fields[keys.hour_fields(h)[1]]) for h in stored]
            own = (np.asarray(table["user"]) == user) & (hours // 24 == day)
            assert sum(len(part.numbers) for part in of_slices) == own.sum()


def test_a_day_of_which_an_hour_is_only_counted_has_no_total_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = committed(600)
    silent = frozenset({DAY0 * 24 + 5})
    outcomes, _, _ = published(table, silent, 100, monkeypatch)
    counted = outcomes.hours[DAY0 * 24 + 5]
    assert counted.entities.total() == 0
    assert counted.slices
    users = np.asarray(table["user"])[table["hour"].to_numpy() == DAY0 * 24 + 5]
    assert outcomes.days[DAY0]["untotalled"] == len(set(users.tolist())) > 0
    assert outcomes.whole_days(outcomes.hours) == {DAY0 + 1: 3}


def test_a_day_is_not_whole_whose_other_hours_were_not_published() -> None:
    days = {5: {"totals": 2, "untotalled": 0}, 6: {"totals": 1, "untotalled": 1}}
    reports: list[dict[str, Any]] = [{"day": day, **counts} for day, counts in days.items()]
    reports.append({"hour": 121, **dict.fromkeys(publish_hours._FATES, 0), "slices": []})
    outcomes = outcomes_of(reports)
    assert outcomes.whole_days([121]) == {5: 2}
    assert outcomes.whole_days([121, 122]) == {}


def test_a_task_tells_of_an_hour_once_however_many_its_parts() -> None:
    sums, none = publish_hours._Sums(), dict.fromkeys(publish_hours._FATES, 0)
    parts = [
        [{"hour": 5, **none, "swapped": 1, "left_over": n, "freed": 2 * n, "slices": [row]}]
        for n, row in ((n, [n, 1, 1, 0, 9]) for n in (2, 1, 2))
    ]
    for part in parts:
        sums.add([*part, {"day": 0, "totals": 1, "untotalled": 0}])
    counts = none | {"swapped": 3, "left_over": 5, "freed": 10}
    assert [*sums.outcomes()] == [
        {"hour": 5, **counts, "slices": [[1, 1, 1, 0, 9], [2, 2, 2, 0, 18]]},
        {"day": 0, "totals": 3, "untotalled": 0},
    ]
    again = outcomes_of(sums.outcomes())
    assert again.hours[5].slices == ((1, 1, 1, 0, 9), (2, 2, 2, 0, 18))
    assert again.days == {0: {"totals": 3, "untotalled": 0}}


def test_hours_of_one_archive_version_with_two_offset_vectors_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # under the larger of them running partials would go that the other hour does not contain
    table, first = committed(60), DAY0 * 24
    server = MemoryServer(ManualClock((DAY0 + 3) * DAY_US))
    store = open_memory(server)
    store.run(Initialise())
    store.run(Deploy(DEPLOYMENT, 0, {"plays": TOPIC}))
    store.run(PutArchiveVersion("plays", 1, OffsetVector({(TOPIC, 0): 10})))
    monkeypatch.setattr(StoreRef, "open", lambda self: open_memory(server))  # noqa: ARG005
    hours = {
        int(hour): (1, OffsetVector({(TOPIC, 0): 10 if hour < first + 24 else 9}))
        for hour in np.unique(table["hour"].to_numpy())
    }
    where = StoreRef("redis://nowhere", store.server_run, store.store_id, {})
    ref = UnitRef(DEPLOYMENT.to_json(), unit_of().storage_fingerprint)
    with pytest.raises(DataLoss, match="2 offset vectors"):
        list(PublishHours(ref, where, hours)(iter(table.to_batches())))
    assert not any(b":day:" in key for key in server.hashes)


def test_parts_are_of_whole_entities_and_in_the_order_of_slices() -> None:
    chance = np.random.default_rng(SEED)
    codes, numbers = chance.integers(0, 9, 100), chance.permutation(100)
    parts = [*parts_of(codes, numbers, 10)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    seen: set[int] = set()
    for part in parts:
        own = set(codes[part].tolist())
        assert not own & seen
        seen |= own
        pairs = list(zip(codes[part].tolist(), numbers[part].tolist(), strict=True))
        assert pairs == sorted(pairs)
    assert min(map(len, parts[:-1])) >= 10


def test_entries_name_the_archive_version_of_their_hours() -> None:
    table = committed(300)
    rows = HourRows.of(unit_of(), table, ("user",))
    first = DAY0 * 24
    versions = {hour: 1 if hour < first + 12 else 2 for hour in range(first, first + 24)}
    entries = rows.entries(versions)
    assert {version: len(own) for version, own in entries.items()} == {1: 3, 2: 3}
    for version, own in entries.items():
        for entry in own:
            assert entry.row is None
            assert all(versions[values.hour] == version for values in entry.hours)
    whole = rows.entries(dict.fromkeys(range(first, first + 48), 7))[7]
    assert [entry.day for entry in whole] == [DAY0, DAY0 + 1] * 3
    assert all(entry.row is not None for entry in whole)


def test_minutes_of_an_hour_are_those_of_its_own_slices() -> None:
    #  a unit that keeps minutes: an hour beside all others has the bytes that it has by itself
    fine = sw.FeatureView(
        "fine",
        source=plays,
        entity=["user"],
        features=[sw.Feature("all", sw.sum("x"), windows=["5m", "1d"])],
        slice="30s",
    )
    (unit,) = plan(Project.of("p", [fine])).units
    assert unit.levels == (publish_hours.MINUTE_US,)
    table = committed(400, unit)
    hours = table["hour"].to_numpy()
    versions = {int(hour): 3 for hour in np.unique(hours)}
    entries = HourRows.of(unit, table, ("user",)).entries(versions)[3]
    assert sum(len(entry.hours) for entry in entries) > 100
    users = np.asarray(table["user"])
    for user in USERS:
        (tag,) = keys.entity_tags(unit.entity, [[user]])
        for values in [v for entry in entries if entry.tag == tag for v in entry.hours]:
            own = table.filter(pa.array((hours == values.hour) & (users == user)))
            (alone,) = HourRows.of(unit, own, ("user",)).entries(versions)[3]
            assert [*alone.hours] == [values]
            assert alone.row == bytes(codec.unpack_total(values.total).row)
            assert values.minutes is not None
            minutes = codec.unpack_slices(values.minutes)
            numbers = np.unique(own["slice"].to_numpy() // 2)
            assert np.array_equal(minutes.numbers, numbers)
            parts = unit.layout.from_arrow(own)
            at = np.searchsorted(numbers, np.sort(own["slice"].to_numpy()) // 2)
            order = np.argsort(own["slice"].to_numpy())
            groups = np.empty(len(at), np.int64)
            groups[order] = at
            combined = [
                part.combine_columns(columns, groups, len(numbers))
                for part, columns in zip(unit.layout.partials, parts, strict=True)
            ]
            assert bytes(minutes.block) == unit.layout.encode_block(combined)


def test_a_day_that_is_wider_than_a_change_goes_in_some_hours_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = committed(600)
    _, whole, store_id = published(table, frozenset(), 100, monkeypatch)
    monkeypatch.setattr(publish_hours, "CHANGE_BYTES", 1_500)
    rows = HourRows.of(unit_of(), table, ("user",))
    hours = np.unique(table["hour"].to_numpy()).tolist()
    entries = rows.entries(dict.fromkeys(hours, 7))[7]
    assert len(entries) > 12
    assert all(entry.row is None for entry in entries)
    given = [(entry.tag, values.hour) for entry in entries for values in entry.hours]
    assert len(set(given)) == len(given) > 100
    outcomes, cut, other_id = published(table, frozenset(), 100, monkeypatch)
    assert outcomes.whole_days(hours) == {}
    assert all(not of.entities["left_over"] for of in outcomes.hours.values())
    for key, stored in whole.hashes.items():
        if b":day:" in key:
            other = cut.hashes[key.replace(b"%d" % store_id, b"%d" % other_id)]
            total = {keys.TOTAL: stored.fields[keys.TOTAL]}
            assert total | other.fields == stored.fields
            assert keys.TOTAL not in other.fields


def test_hours_of_a_day_are_not_parted() -> None:
    hours = sorted([*range(20, 30), *range(48, 50), 100], reverse=True)
    assert [*of_whole_days(hours, 3)] == [[100, 49, 48], [*range(29, 23, -1)], [23, 22, 21, 20]]
    assert [*of_whole_days(hours, 100)] == [hours]
    assert [*of_whole_days([], 3)] == []


def test_hours_are_written_together_while_a_task_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compact_run, "EVENTS_PER_COMMIT", 10)
    written: list[tuple[list[int], int]] = []

    class Table:
        def write(self, jobs: list[HourJob], rows: int) -> None:
            written.append(([job.hour for job in jobs], rows))

    jobs = [HourJob(hour, 1, OffsetVector()) for hour in range(6)]
    write_hours(Table(), jobs, {0: 4, 1: 6, 2: 1, 3: 30, 5: 2})  # type: ignore[arg-type]
    assert written == [([0, 1], 10), ([2], 1), ([3], 30), ([4, 5], 2)]
    written.clear()
    write_hours(Table(), [], {})  # type: ignore[arg-type]
    assert written == []
