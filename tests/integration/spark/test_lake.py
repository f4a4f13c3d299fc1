"""Stream, archive and compaction on real servers: each event counts once, whatever ran when and how
often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis

import slicewise as sw
from slicewise.cli.clean_hour import why_not_clean
from slicewise.cli.hour_states import ViewHours, calendar
from slicewise.errors import CommitConflict, DataLoss
from slicewise.features.own import HISTORY_PARTITION, history_id
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.archiving import Extent
from slicewise.lifecycle.healing.record import PART, Healing, Job
from slicewise.lifecycle.hours import HourState
from slicewise.lifecycle.jobs import hour_text
from slicewise.local import deploy
from slicewise.spark.lake.archive import Archiver, committed
from slicewise.spark.lake.compact_run import Request, UnitRun, compact
from slicewise.spark.lake.compaction import HourJob, UnitTable
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.maintain import Maintenance
from slicewise.spark.microbatch.streaming import plan_stream
from slicewise.stores.lake import slices
from slicewise.stores.lake.archive import (
    archive_state,
    archived_until_us,
    load,
    newest_by_hour,
    scan_events,
)
from slicewise.stores.lake.hour_files import replace
from slicewise.stores.lake.imported import history
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.port import Operation
from slicewise.stores.online.redis.status import amend_part, read_part
from slicewise.windows.durations import HOUR_US
from tests.support.platform.lake import Lake, expected, lake
from tests.support.platform.lake_plays import (
    MINUTE_US,
    by_song,
    by_user,
    check,
    events,
    over,
)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def rows_of(context: Context, unit: StorageUnit, hours: list[int]) -> Any:
    table = context.unit_table(unit).table
    table.refresh()
    order = [(name, "ascending") for name in ("hour", "slice", *(name for name, _ in unit.entity))]
    return slices.scan_slices(table, hours).sort_by(order)


def test_the_stream_applies_every_good_record_once_and_counts_the_bad_by_reason(
    shared: Lake,
) -> None:
    shared.topic("applied")
    deployment = shared.deploy(by_user(shared, "applied"))
    unit = deployment.units[0]
    good = events(over(2), 60)
    shared.produce(
        "applied",
        [*good[:30], b"{", b'{"user_id": 3, "played": 1}', {"song_id": "s", "played": 1}],
        0,
    )
    shared.produce("applied", good[30:], 1)
    status = shared.apply(deployment, "applied")
    check(shared, unit, good)
    assert status.records == 63
    assert status.bad == {"not_json": 1, "wrong_type:user_id": 1, "missing_required:user_id": 1}
    with shared.store() as store:
        assert sum(store.run(ReadMetadata()).committed.offsets.values()) == 63


def test_a_batch_whose_committed_offsets_did_not_advance_is_applied_again_without_counting_twice(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.topic("again")
    deployment = shared.deploy(by_user(shared, "again"))
    good = events(over(2), 40)
    shared.produce("again", good)
    query = shared.query(deployment, "again")

    run = query._store.run

    def crash(operation: Operation[Any]) -> Any:
        if isinstance(operation, AdvanceCommitted):
            raise DataLoss("the driver died here")
        return run(operation)

    monkeypatch.setattr(query._store, "run", crash)
    with pytest.raises(Exception, match="the driver died here"):
        query.query.processAllAvailable()
    query.drain()
    check(shared, deployment.units[0], good)  # applied, and not in the committed offsets
    with shared.store() as store:
        assert store.run(ReadMetadata()).committed.get((query.plan.topic_id, 0)) == 0
    shared.apply(deployment, "again")
    check(shared, deployment.units[0], good)


def test_committed_offsets_below_the_log_are_refused_with_what_was_lost(shared: Lake) -> None:
    shared.topic("gone")
    deployment = shared.deploy(by_user(shared, "gone"))
    shared.produce("gone", events(over(2), 9))
    log = KafkaLog(shared.settings.kafka_bootstrap)
    log.delete_records("gone", {0: 5})
    with shared.store() as store, pytest.raises(DataLoss, match="5 offsets are gone"):
        plan_stream(deployment, deployment.source("gone"), store.run(ReadMetadata()), log)


def archiver(shared: Lake, context: Context, source: str) -> Archiver:
    return Archiver(
        shared.session,
        shared.settings,
        context.catalog,
        context.deployment.source(source),
        shared.clock,
    )


def test_an_archive_keeps_good_rows_typed_and_bad_ones_as_they_came_and_a_rerun_changes_nothing(
    shared: Lake,
) -> None:
    shared.topic("kept")
    deployment = shared.deploy(by_user(shared, "kept"))
    good = events(over(3), 25)
    shared.produce("kept", [*good, b"\xff{", b'{"user_id": "x", "played": "soon"}'])
    with shared.context() as context:
        done = archiver(shared, context, "kept").run()
        again = archiver(shared, context, "kept").run()
        table = load(context.catalog, "kept")
        assert table is not None
        assert (done.archives, done.state.archive_version) == (1, 1) or done.archives == 1
        state = archive_state(table)
        assert again.archives == 0
        assert again.state.snapshot_id == state.snapshot_id
        assert state.archive_version == 1
        assert sum(state.offset_vector.offsets.values()) == 27
        rows = scan_events(table, deployment.source("kept")).to_pylist()
        assert [(row["user_id"], row["n"], row["event_time"], row["offset"]) for row in rows] == [
            (event["user_id"], event["n"], event["played"], i) for i, event in enumerate(good)
        ]
        bad = table.scan(row_filter="kind = 'bad'").to_arrow().sort_by("offset").to_pylist()
        assert [(row["reason"], row["raw"], row["offset"]) for row in bad] == [
            ("not_json", b"\xff{", 25),
            ("wrong_type:played", b'{"user_id": "x", "played": "soon"}', 26),
        ]
        assert set(newest_by_hour(table).values()) == {1}
    view = shared.session.sql("SELECT count(*) AS n FROM slicewise.events.kept").collect()
    assert view[0].n == 25


def test_of_two_archives_at_once_the_later_fails_and_then_goes_on_from_the_other(
    shared: Lake,
) -> None:
    shared.topic("both")
    shared.deploy(by_user(shared, "both"))
    shared.produce("both", events(over(3), 10))
    with shared.context() as context:
        first = archiver(shared, context, "both")
        first.run()
        table = load(context.catalog, "both")
        assert table is not None
        stale = archive_state(table)
        shared.produce("both", events(over(2), 10))
        topic_id = KafkaLog(shared.settings.kafka_bootstrap).topic_id("both")
        assert first.run().state.archive_version == 2
        with pytest.raises(CommitConflict):
            first._commit(
                stale, topic_id, Extent({0: 10, 1: 0}, {0: 20, 1: 0}), shared.clock.now_us(), {}
            )
        table.refresh()
        assert archive_state(table).archive_version == 2
        assert scan_events(table, context.deployment.source("both")).num_rows == 20
        assert first.run().archives == 0


def test_an_archive_beside_a_history_that_takes_a_number_far_above_fails_and_goes_on_from_it(
    shared: Lake,
) -> None:
    """The next would begin at the history's offset vector else, and take its events once more."""
    shared.topic("beside")
    shared.deploy(by_user(shared, "beside"))
    shared.produce("beside", events(over(3), 10))
    with shared.context() as context:
        first = archiver(shared, context, "beside")
        first.run()
        table = load(context.catalog, "beside")
        assert table is not None
        stale = archive_state(table)
        shared.produce("beside", events(over(2), 10))
        source = context.deployment.source("beside")
        taken = history.TakenIn(
            history_id("beside", over(9)), "0" * 32, over(9), 0, 1, over(1), 2 + history.ROOM
        )
        files = history.HistoryFiles.of(
            context.catalog, source, taken.topic_id, taken.archive_version, taken.at_us
        )
        bad = {"offset": [0], "kafka_time": [over(10)], "reason": ["not_json"], "raw": [b"{"]}
        written = files.write(pa.table({}), pa.table(bad))
        history.commit(context.catalog, source, taken, written, over(9))
        topic_id = KafkaLog(shared.settings.kafka_bootstrap).topic_id("beside")
        extent = Extent({0: 10, 1: 0}, {0: 20, 1: 0})
        with pytest.raises(CommitConflict):
            first._commit(stale, topic_id, extent, shared.clock.now_us(), {})
        assert first.run().state.archive_version == taken.archive_version + 1
        assert first.run().archives == 0
        table.refresh()
        assert scan_events(table, source).num_rows == 20
        offsets = table.scan(row_filter="kind = 'good'").to_arrow()["offset"].to_pylist()
        assert sorted(offsets) == list(range(20))
        # the store does not count the history yet: no hour is to have a part of it
        whole = context.archive("beside").state
        assert whole.offset_vector.get((taken.topic_id, HISTORY_PARTITION)) == 1
        assert context.archives["beside"].archive_version == 1
        assert compact(context, Request(None)).failed == []
    deploy.contain_history(shared.settings, source, taken.topic_id, 1)
    with shared.context() as context:
        context.archive("beside")
        assert context.archives["beside"] == whole


@pytest.mark.parametrize(("part", "commit"), [("archive", committed), ("compaction", replace)])
def test_a_commit_whose_reply_is_lost_fails_its_run_and_is_found_by_the_next(
    shared: Lake, part: str, commit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"unsure_{part}"
    shared.topic(source)
    deployment = shared.deploy(by_user(shared, source))
    hour, sent = over(3) // HOUR_US, events(over(3), 60)
    shared.produce(source, sent)
    shared.apply(deployment, source)

    def lost(*arguments: object) -> None:
        commit(*arguments)
        raise ConnectionError("the catalog did not answer")

    with shared.context() as context:
        with monkeypatch.context() as patch:
            patch.setattr(f"slicewise.spark.lake.{part}.{commit.__name__}", lost)
            with pytest.raises(ConnectionError, match="did not answer"):
                compact(context, Request(hour))
        check(shared, deployment.units[0], sent)
        again = compact(context, Request(hour))
        assert again.more["dirty"] == 0
        check(shared, deployment.units[0], sent)
        table = load(context.catalog, source)
        assert table is not None
        assert archive_state(table).archive_version == 1, "what was committed is not archived again"
        assert scan_events(table, deployment.source(source)).num_rows == len(sent)
        keys = [
            (row["hour"], row["slice"], row["user_id"])
            for row in rows_of(context, deployment.units[0], [hour]).to_pylist()
        ]
        assert keys
        assert len(keys) == len(set(keys))


@pytest.mark.parametrize("size", ["few", "many"])
def test_compaction_moves_finished_hours_and_late_events_join_them(
    shared: Lake, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == "many":  # as if they were: archived, combined and published by several tasks
        monkeypatch.setattr("slicewise.spark.lake.archive._ONE_TASK_EVENTS", -1)
        monkeypatch.setattr("slicewise.spark.lake.compaction._DRIVER_EVENTS", -1)
        monkeypatch.setattr("slicewise.spark.lake.compaction._DRIVER_ROWS", -1)
    moved = f"moved_{size}"
    shared.topic(moved)
    deployment = shared.deploy(by_user(shared, moved), by_song(shared, moved))
    hour = over(3) // HOUR_US
    sent = events(over(3), 300)  # 85 minutes: two hours
    shared.produce(moved, sent)
    shared.apply(deployment, moved)
    with shared.context() as context:
        report = compact(context, Request(hour))
    assert {entry["why"] for entry in report.hours} == {"events"}
    assert report.left_over == 0
    assert report.more["dirty"] == 0
    assert sum(row["events"] for row in report.slices) == 2 * len(sent)
    for unit in deployment.units:
        check(shared, unit, sent)
    with shared.context() as context:
        again = compact(context, Request(hour))
        assert again.to_json()["outcome"] == "clean"

        late = events(over(3) + MINUTE_US, 30)
        shared.produce(moved, late)
        shared.apply(deployment, moved)
        for unit in deployment.units:
            check(shared, unit, sent + late)
        merged = compact(context, Request(hour))
        assert {entry["hour"][-2:] for entry in merged.hours} == {f"{hour % 24:02d}"}
        for unit in deployment.units:
            check(shared, unit, sent + late)

        hours = [hour, hour + 1]
        before = [rows_of(context, unit, hours) for unit in deployment.units]
        compact(context, Request(hour, only=True, from_raw=True))
        after = [rows_of(context, unit, hours) for unit in deployment.units]
        assert all(one.equals(other) for one, other in zip(before, after, strict=True))

        lost = deployment.units[0]
        with redis.Redis.from_url(shared.operator_url) as client:
            days = [
                key
                for key in client.scan_iter(f"*{lost.storage_fingerprint}*")
                if not key.endswith(b":hot")
            ]
            assert client.delete(*days)
        with pytest.raises(AssertionError):
            check(shared, lost, sent + late)
        request = Request(None, from_raw=True, units=(lost.view,), since=hour)
        recomputed = compact(context, request)
        assert {entry["unit"] for entry in recomputed.hours} == {lost.storage_fingerprint}
        assert len({entry["hour"] for entry in recomputed.hours}) > 1
        after = [rows_of(context, unit, hours) for unit in deployment.units]
        assert all(one.equals(other) for one, other in zip(before, after, strict=True))
        for unit in deployment.units:
            check(shared, unit, sent + late)
            totals = context.unit_table(unit).total(hour // 24)
            assert totals == len(expected(sent, [name for name, _ in unit.entity], unit.slice_us))


@pytest.mark.parametrize(("rows_per_task", "divided"), [(100, False), (100, True), (20, False)])
def test_events_of_many_hours_are_counted_once_in_several_tasks(
    shared: Lake,
    rows_per_task: int,
    divided: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 11 hours, 200 events: in 2 tasks an hour goes whole to one, in 10 its entities part. Of an odd
    # number of hours in two files each, two tasks share one, in whatever order files are read
    monkeypatch.setattr("slicewise.spark.lake.compaction._DRIVER_EVENTS", -1)
    monkeypatch.setattr("slicewise.spark.lake.compaction._ROWS_PER_TASK", rows_per_task)
    warned: list[str] = []
    monkeypatch.setattr(
        "slicewise.spark.lake.compaction.warning", lambda name, **_: warned.append(name)
    )
    if divided:  # each file of the archive is a partition of the read, in any order
        monkeypatch.setattr("slicewise.spark.lake.compaction._UNDIVIDED", {"split-size": "1"})
        monkeypatch.setattr("slicewise.spark.lake.compaction._GROUPING", "spark.unknown")
    source = f"several_{rows_per_task}_{divided}"
    shared.topic(source)
    deployment = shared.deploy(by_user(shared, source), by_song(shared, source))
    sent = events(over(14), 200, step_us=11 * HOUR_US // 199)
    for half in (sent[::2], sent[1::2]):  # an archive each
        shared.produce(source, half)
        shared.apply(deployment, source)
        with shared.context() as context:
            archiver(shared, context, source).run()
    with shared.context() as context:
        report = compact(context, Request(None))
        assert warned == ["hours_apart"] * len(deployment.units) * divided
        assert (report.left_over, report.more["dirty"]) == (0, 0)
        assert sum(row["events"] for row in report.slices) == 2 * len(sent)
        for unit in deployment.units:
            check(shared, unit, sent)
            entity = [name for name, _ in unit.entity]
            hours = sorted({event["played"] // HOUR_US for event in sent})
            rows = rows_of(context, unit, hours).to_pylist()
            keys = [(row["slice"], *(row[name] for name in entity)) for row in rows]
            assert len(keys) == len(set(keys))
            assert sum(row["events"] for row in rows) == len(sent)


def test_an_hour_is_clean_for_whoever_asked_before_the_archive_that_it_was_compacted_from(
    shared: Lake,
) -> None:
    shared.topic("asked")
    deployment = shared.deploy(by_user(shared, "asked"))
    hour = over(3) // HOUR_US
    shared.produce("asked", events(over(3), 300))  # 85 minutes: two hours
    shared.apply(deployment, "asked")
    requested_us = shared.clock.now_us()
    reasons = [why_not_clean(shared.settings, hour, requested_us)]
    with shared.context() as context:
        context.archive("asked")
        reasons.append(why_not_clean(shared.settings, hour, requested_us))
        compact(context, Request(hour))
    reasons += [
        why_not_clean(shared.settings, requested_hour, requested_us)
        for requested_hour in (hour, hour + 1)
    ]
    assert reasons == [
        "source 'asked' was not archived since it was asked for",
        "events of view 'asked_by_user'",
        None,
        None,
    ]

    # nobody wrote anything since: whoever asks now is answered too
    assert why_not_clean(shared.settings, hour, shared.clock.now_us()) is None
    shared.produce("asked", events(over(3) + MINUTE_US, 3))
    shared.apply(deployment, "asked")
    later_us = shared.clock.now_us()
    assert (
        why_not_clean(shared.settings, hour, later_us)
        == "source 'asked' was not archived since it was asked for"
    )
    with shared.context() as context:
        # archives them, and leaves the hour as it stands
        compact(context, Request(hour + 1, only=True))
        assert why_not_clean(shared.settings, hour, later_us) == "events of view 'asked_by_user'"
        assert why_not_clean(shared.settings, hour + 1, later_us) is None
        assert _states(shared, hour) == [HourState.DIRTY, HourState.COMPACTED]
        compact(context, Request(hour))
    assert why_not_clean(shared.settings, hour, later_us) is None
    assert _states(shared, hour) == [HourState.COMPACTED, HourState.COMPACTED]


def _states(shared: Lake, hour: int) -> list[HourState | None]:
    """States of an hour and of the next in the calendar of the view that has them."""
    shown = calendar(shared.settings, days=2)
    assert shown is not None
    (view,) = (view for view in shown.views if view.view == "asked_by_user")
    assert view.rows > 0
    assert view.bytes > 0
    return [view.states.get(hour), view.states.get(hour + 1)]


def test_an_archive_that_did_not_reach_its_goal_vouches_for_nobody(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.topic("halfway", partitions=1)
    shared.deploy(by_user(shared, "halfway"))
    shared.produce("halfway", events(over(3), 20))
    requested_us, done = shared.clock.now_us(), list[str]()

    def once(write: Callable[[], None], what: str) -> None:
        if done:
            raise ConnectionError("the job died here")
        committed(write, what)
        done.append(what)

    with shared.context() as context:
        with monkeypatch.context() as patch:
            patch.setattr("slicewise.spark.lake.archive.committed", once)
            with pytest.raises(ConnectionError, match="died here"):
                archiver(shared, context, "halfway").run(max_events=5)
        table = load(context.catalog, "halfway")
        assert table is not None
        assert (archive_state(table).archive_version, archived_until_us(table)) == (1, 0)
        archiver(shared, context, "halfway").run(max_events=5)
        table.refresh()
        assert archived_until_us(table) >= requested_us


def test_an_archive_ahead_of_a_stream_that_is_down_is_not_counted_again_by_the_stream(
    shared: Lake,
) -> None:
    shared.topic("ahead")
    deployment = shared.deploy(by_user(shared, "ahead"))
    sent = events(over(2), 50)
    shared.produce("ahead", sent)
    with shared.context() as context:
        compact(context, Request(over(2) // HOUR_US))
    check(shared, deployment.units[0], sent)
    shared.apply(deployment, "ahead")
    check(shared, deployment.units[0], sent)


def test_an_entity_whose_running_partial_straddles_the_offset_vector_is_left_over_and_the_hour_stays_dirty(
    shared: Lake,
) -> None:
    #   offsets  0 … 4 | 5 … 9
    #   archive  ######            offset vector 5
    #   stream   ############      one running partial [0, 9]
    shared.topic("astride")
    deployment = shared.deploy(by_user(shared, "astride"))
    unit, hour = deployment.units[0], over(2) // HOUR_US
    sent = [{"user_id": "ada", "song_id": "s", "n": i, "played": over(2) + i} for i in range(10)]
    shared.produce("astride", sent[:5])
    with shared.context() as context:
        state = context.archive("astride").state
        shared.produce("astride", sent[5:])
        shared.apply(deployment, "astride")
        table = context.unit_table(unit)
        table.write([HourJob(hour, state.archive_version, state.offset_vector)], 5)
        from slicewise.spark.lake.report import Report

        report = Report("compact")
        UnitRun(context, table, report, frozenset()).publish([hour], 0, {})
        assert report.left_over == 1
        assert context.store.run(ReadHours(unit)) == {}
        check(shared, unit, sent)
        done = compact(context, Request(hour, only=True))
        assert done.left_over == 0
        assert context.store.run(ReadHours(unit)) == {hour: 2}
        check(shared, unit, sent)


def test_marked_hours_are_recomputed_by_the_next_run_after_one_that_failed_the_open_one_too(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    #   hour      | over | open, until the run is done
    #   partials  ######   (lost)
    shared.topic("marked")
    deployment = shared.deploy(by_user(shared, "marked"))
    unit, open_hour = deployment.units[0], over(0) // HOUR_US
    names = ("ada", "bob")
    sent = [
        {"user_id": name, "song_id": "s", "n": i, "played": hour * HOUR_US + i * 1_000}
        for hour in (open_hour - 1, open_hour)
        for i, name in enumerate(names * 5)
    ]
    shared.produce("marked", sent)
    shared.apply(deployment, "marked")
    with redis.Redis.from_url(shared.operator_url) as client:
        (key,) = [k for k in client.scan_iter(f"*{unit.storage_fingerprint}*") if b"{" in k][:1]
        fields: Any = client.hkeys(key)
        client.hdel(key, *(name for name in fields if name.startswith(b"r:")))
    with pytest.raises(AssertionError):
        check(shared, unit, sent)
    url = shared.settings.redis_url
    job = Job(shared.clock.now_us(), "by hand")

    def change(text: str | None) -> str:
        healing = Healing.of([text])
        return healing.red(job, {unit.view: open_hour - 1}, open_hour, [], job.at_us).text()

    amend_part(url, PART, change)
    request = Request(open_hour - 1, units=(unit.view,))
    with shared.context() as context:
        with monkeypatch.context() as patch:
            patch.setattr(UnitRun, "run", _fail)
            with pytest.raises(DataLoss, match="cut off"):
                compact(context, request)
        states = next(one for one in calendar_of(shared) if one.view == unit.view)
        assert {states.states[open_hour - 1], states.states[open_hour]} == {HourState.DIRTY}
        report = compact(context, request)
        assert {row["hour"] for row in report.hours} == {
            hour_text(open_hour - 1),
            hour_text(open_hour),
        }
        check(shared, unit, sent)
        assert Healing.of(read_part(url, PART)).mark(unit.view).due([open_hour])[0] == set()  # type: ignore[union-attr]
        late = [{**event, "n": 7} for event in sent[10:]]
        shared.produce("marked", late)
        shared.apply(deployment, "marked")
        check(shared, unit, sent + late)
        assert compact(context, request).more["dirty"] == 0
        check(shared, unit, sent + late)
    amend_part(url, PART, lambda _: Healing().text())


def _fail(*_: object) -> None:
    raise DataLoss("cut off")


def calendar_of(shared: Lake) -> Sequence[ViewHours]:
    shown = calendar(shared.settings, 2)
    assert shown is not None
    return shown.views


def test_a_view_whose_files_conflict_stops_no_other_and_its_hour_stays_dirty(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.topic("apart")
    deployment = shared.deploy(by_user(shared, "apart"), by_song(shared, "apart"))
    broken, well = deployment.units
    hour, sent = over(3) // HOUR_US, events(over(3), 30)
    shared.produce("apart", sent)
    shared.apply(deployment, "apart")
    write = UnitTable.write

    def refused(table: UnitTable, jobs: Sequence[HourJob], count: int) -> None:
        if table.unit.storage_fingerprint == broken.storage_fingerprint:
            raise CommitConflict("another commit came first")
        write(table, jobs, count)

    with shared.context() as context:
        with monkeypatch.context() as patch:
            patch.setattr(UnitTable, "write", refused)
            report = compact(context, Request(hour))
        text = report.to_json()
        (failed,) = [row for row in text["failed"] if row["hour"] == hour_text(hour)]
        assert (failed["view"], failed["error"]) == (broken.view, "another commit came first")
        assert {row["view"] for row in text["slices"]} == {well.view}
        (freed,) = [row for row in text["hours"] if row["hour"] == hour_text(hour)]
        assert freed["freed"] > 0
        assert freed["bytes_before"] > 0
        assert text["dirty"] >= 1
        again = compact(context, Request(hour)).to_json()
        assert {row["view"] for row in again["slices"]} == {broken.view}
        assert "failed" not in again
        check(shared, broken, sent)
        check(shared, well, sent)


def test_maintenance_changes_no_row(shared: Lake) -> None:
    shared.topic("tidied")
    shared.deploy(by_user(shared, "tidied"))
    with shared.context() as context:
        for i in range(4):
            shared.produce("tidied", events(over(3), 8))
            context.archive("tidied")
            compact(context, Request(over(3) // HOUR_US))
            assert context.archives["tidied"].archive_version == i + 1
        table = load(context.catalog, "tidied")
        assert table is not None
        source = context.deployment.source("tidied")
        before: Mapping[str, Any] = {
            "rows": scan_events(table, source),
            "newest": newest_by_hour(table),
        }
        report = Maintenance(shared.session, shared.settings, context.catalog, shared.clock).run()
        table.refresh()
        assert scan_events(table, source).equals(before["rows"])
        assert newest_by_hour(table) == before["newest"]
        named = {entry["table"]: entry for entry in report["tables"]}
        assert named["log.tidied"]["files_after"] < named["log.tidied"]["files_before"]
        assert compact(context, Request(over(3) // HOUR_US)).to_json()["outcome"] == "clean"


def test_a_view_of_more_columns_than_iceberg_bounds_by_itself_is_compacted(shared: Lake) -> None:
    shared.topic("wide")
    view = sw.FeatureView(
        "wide",
        source=shared.source("wide"),
        entity=["user_id"],
        features=[
            sw.Feature(f"beyond_{i}", sw.count(where=f"n >= {i}"), windows=["1h"])
            for i in range(110)
        ],
    )
    (unit,) = (deployment := shared.deploy(view)).units
    start = over(2)
    shared.produce("wide", events(start, 12))
    shared.apply(deployment, "wide")
    with shared.context() as context:
        report = compact(context, Request(None))
        assert report.more["dirty"] == 0
        assert [hour["hour"] for hour in report.hours if hour["view"] == "wide"]
        assert context.store.run(ReadHours(unit)) == {start // HOUR_US: 1}
        assert slices.headers(context.unit_table(unit).table)[start // HOUR_US].archive_version == 1
