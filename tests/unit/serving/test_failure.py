"""Answers at the edges are what was asked for: by definition, by token and by window."""

from __future__ import annotations

from dataclasses import replace

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.errors import BeyondRetention, NotReady, Recovering, StoreUnavailable
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.answer import Answer, EntityAnswer
from slicewise.serving.answering.catalog import Catalog
from slicewise.serving.answering.memory.fallback import LastAnswers
from slicewise.serving.answering.memory.pending import Pending
from slicewise.serving.answering.requests import Entity, checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.committed import AdvanceCommitted, MarkLostOffsets
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.windows.durations import DAY_US
from tests.support.stores.in_memory import TOPIC, deploy, deployment, read_as, world
from tests.support.stores.served import Event, batch


@pytest.mark.parametrize("initialised", [False, True])
def test_a_store_that_was_emptied_is_answered_for_as_the_feature_set_declares(
    initialised: bool,
) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    with_metadata = open_memory(server)
    with_metadata.run(Initialise())
    with_metadata.run(Deploy(deployment(), 0, {"plays": TOPIC}, OffsetVector()))
    service, connection = FeatureService(clock), SyncConnection(lambda: open_memory(server))
    for name in ("declared", "remembered", "strict"):
        assert read_as(service, connection, name).flags == ()

    server.flush()
    if initialised:
        clock.advance(1_000_000)
        open_memory(server).run(Initialise())
    declared = read_as(service, connection, "declared")
    assert (declared.flags, declared.results[0].values) == (("default",), (-1,))
    assert read_as(service, connection, "remembered").flags == ("stale",)
    with pytest.raises((StoreUnavailable, NotReady)):
        read_as(service, connection, "strict")


def test_a_remembered_answer_is_never_given_for_a_newer_definition() -> None:
    _, server, gone, service, connection = world(deployment())
    assert read_as(service, connection, "remembered").flags == ()
    gone.away = True
    connection.close()
    assert read_as(service, connection, "remembered").flags == ("stale",)

    # the same name and columns, another `where`: seen by this process, not yet answered
    gone.away = False
    newer = deployment(where="user <> 'bot'")
    deploy(server, newer)
    connection.run(service.load())
    assert service.catalog is not None
    assert service.catalog.deployment.digest == newer.digest
    gone.away = True
    connection.close()
    with pytest.raises(StoreUnavailable):
        read_as(service, connection, "remembered")


def test_who_asks_by_token_gets_neither_memory_nor_defaults() -> None:
    _, _, gone, service, connection = world(deployment())
    token = read_as(service, connection, "remembered").results[0].token
    assert read_as(service, connection, "declared", token).flags == ()
    gone.away = True
    connection.close()
    for name in ("remembered", "declared"):
        assert read_as(service, connection, name).flags != ()
        with pytest.raises(StoreUnavailable):
            read_as(service, connection, name, token)


def test_a_live_window_beyond_what_is_kept_speaks_of_the_window_and_the_clocks() -> None:
    clock, _, _, _, connection = world(deployment())
    behind = FeatureService(ManualClock(clock.now_us() - 86_400_000_000))
    with pytest.raises(BeyondRetention) as refused:
        read_as(behind, connection, "strict")
    assert refused.value.where == "live window of v:n_10s"
    assert "the window of v:n_10s starts at 2023-11-13T" in refused.value.what
    assert "2023-11-14T22:13:20Z" in (refused.value.expected or "")
    assert "clocks" in (refused.value.next_step or "")


@pytest.mark.parametrize(
    ("off_s", "flags"), [(0, ()), (30, ()), (31, ("clock_off",)), (-31, ("clock_off",))]
)
def test_a_present_that_is_not_the_stores_is_flagged(off_s: int, flags: tuple[str, ...]) -> None:
    clock, _, _, _, connection = world(deployment())
    off = FeatureService(ManualClock(clock.now_us() + off_s * 1_000_000))
    assert read_as(off, connection, "strict").flags == flags
    answer = connection.run(off.read(checked(None, "strict", [{"user": "ada"}], at=clock.now_us())))
    assert answer.flags == (), "the instant is the caller's"


@pytest.mark.parametrize(
    "windows", [["1h", sw.lifetime(offset="36h")], ["30d", "lifetime"], ["10m", "1d"]]
)
def test_the_earliest_instant_that_a_refusal_names_is_answered_whatever_it_was_refused_for(
    windows: list[str | sw.Window],
) -> None:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    features = [sw.Feature("n", sw.count(), windows=windows)]
    views = [
        sw.FeatureView("v", source=source, entity=["user"], features=features),
        sw.FeatureView(
            "w",
            source=source,
            entity=["user"],
            features=[sw.Feature("m", sw.count(), windows=["3h"])],
        ),
    ]
    clock, _, _, service, connection = world(plan(Project.of("p", views)))
    refs = [f"v:{column}" for column in features[0].columns()] + ["w:m_3h"]

    def read(at: int) -> Answer:
        return connection.run(service.read(checked(refs, None, [{"user": "ada"}], at=at)))

    with pytest.raises(BeyondRetention) as refused:
        read(clock.now_us() - 10 * DAY_US)
    earliest = refused.value.earliest_at_us
    assert read(earliest).flags == ()
    with pytest.raises(BeyondRetention):
        read(earliest - 1)


def test_a_remembered_answer_has_the_flags_of_its_own_entities_and_of_all_of_them() -> None:
    store = open_memory(MemoryServer(ManualClock(0)))
    selection = Catalog.of(deployment(), store.run(Initialise())).select((), "remembered")
    ada: Entity = {"user": "ada"}
    bob: Entity = {"user": "bob"}
    ref = "v:n_10s"

    def read(t_us: int, *results: EntityAnswer, lost: bool = False) -> Answer:
        flags = ("overflow",) if any(column.errors for column in results) else ()
        answer = Answer((ref,), "live", t_us, {ref: (t_us - 10, t_us)}, results, flags=flags)
        return replace(answer, flags=(*flags, "incomplete"), incomplete=(ref,)) if lost else answer

    def flags(*entities: Entity) -> tuple[tuple[str, ...], tuple[str, ...]]:
        answer = memory.answer(
            checked(None, "remembered", list(entities)), selection, 500, lambda *_: ()
        )
        assert answer is not None
        return answer.flags, answer.incomplete

    memory = LastAnswers()
    too_large = EntityAnswer(bob, (None,), "t", {ref: "overflow"})
    memory.keep(read(100, EntityAnswer(ada, (1,), "t"), too_large), selection)
    assert flags(ada) == (("stale",), ())
    assert flags(bob) == (("overflow", "stale"), ())
    memory.keep(read(200, too_large, lost=True), selection)
    for entities in ((ada, bob), (bob, ada)):
        assert flags(*entities) == (("overflow", "incomplete", "stale"), (ref,)), (
            "the older one has none of them"
        )


def advance(server: MemoryServer, start: int, end: int) -> None:
    store = open_memory(server)
    metadata = store.run(ReadMetadata())
    store.run(
        AdvanceCommitted(
            OffsetVector({(TOPIC, 0): start}),
            OffsetVector({(TOPIC, 0): end}),
            metadata.deployment_version,
            metadata.units,
        )
    )


def test_the_first_answer_after_a_loss_is_refused_by_who_saw_more_before() -> None:
    _, server, _, service, connection = world(deployment())
    advance(server, 0, 100)
    assert read_as(service, connection, "strict").flags == ()
    assert read_as(service, connection, "remembered").flags == ()
    server.restart(lost_writes=1)
    with pytest.raises(Recovering, match="100 to go"):
        read_as(service, connection, "strict")
    assert read_as(service, connection, "remembered").flags == ("stale",)
    assert read_as(service, connection, "declared").flags == ("default",)
    advance(server, 0, 75)
    with pytest.raises(Recovering) as half_way:
        read_as(service, connection, "strict")
    assert half_way.value.progress == 0.75
    advance(server, 75, 101)
    assert read_as(service, connection, "strict").flags == ()


def test_a_service_that_saw_nothing_refuses_by_what_the_store_was_told() -> None:
    _, server, _, service, connection = world(deployment())
    advance(server, 0, 10)
    open_memory(server).run(MarkLostOffsets(OffsetVector({(TOPIC, 0): 30})))
    with pytest.raises(Recovering, match="20 to go"):
        read_as(service, connection, "strict")
    assert service.catalog is not None
    report = connection.run(service.readiness(service.catalog))
    assert report["reasons"] == [
        "source plays: the store lost what it had applied, 20 events to go"
    ]
    advance(server, 10, 30)
    assert read_as(service, connection, "strict").flags == ()


def test_an_older_reply_of_the_same_server_run_is_no_loss() -> None:
    _, server, _, service, connection = world(deployment())
    advance(server, 0, 100)
    older = open_memory(server)
    metadata = older.run(ReadMetadata())
    advance(server, 100, 200)
    read_as(service, connection, "strict")
    assert service.catalog is not None
    assert (
        service.high_water.after(service.catalog.deployment.sources, metadata, older.server_run)
        == {}
    )


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_committed_offsets_that_were_seen_are_missed_in_all_later_server_runs(runs: int) -> None:
    _, server, _, service, connection = world(deployment())
    advance(server, 0, 100)
    assert read_as(service, connection, "strict").flags == ()
    server.restart(lost_writes=1)
    for run in range(runs):
        with pytest.raises(Recovering, match=f"{100 - run} to go"):
            read_as(service, connection, "strict")
        advance(server, run, run + 1)
        server.restart()
    advance(server, runs, 100)
    assert read_as(service, connection, "strict").flags == ()


def applied(server: MemoryServer, user: str, *offsets: int) -> None:
    """A batch that has not ended: its events are in answers, and the committed offsets are where it
    was."""
    (unit,) = deployment().units
    now = server.clock.now_us() - 1
    store = open_memory(server)
    store.run(
        ApplyBatch(
            batch(
                unit, [Event(0, offset, now, {"user": user, "t": now}, TOPIC) for offset in offsets]
            )
        )
    )


def values_of(service: FeatureService, connection: SyncConnection, *users: str) -> list[object]:
    answer = connection.run(
        service.read(checked(None, "strict", [{"user": user} for user in users]))
    )
    return [result.values[0] for result in answer.results]


@pytest.mark.parametrize("restarts", [1, 2])
def test_what_a_running_batch_had_brought_is_missed_where_it_was_answered_and_nowhere_else(
    restarts: int,
) -> None:
    _, server, _, service, connection = world(deployment())
    applied(server, "ada", 3, 4)
    applied(server, "bob", 5)
    assert values_of(service, connection, "ada", "eve") == [2, 0]
    server.restart(lost_writes=2)
    for _ in range(restarts - 1):
        assert values_of(service, connection, "bob", "eve") == [0, 0]
        server.restart()
    assert values_of(service, connection, "bob", "eve") == [0, 0], "nobody was told of bob's"
    with pytest.raises(Recovering, match="5 to go"):
        values_of(service, connection, "eve", "ada")
    assert read_as(service, connection, "declared").flags == ("default",)
    applied(server, "ada", 3)
    with pytest.raises(Recovering, match="1 to go"):
        values_of(service, connection, "ada")
    applied(server, "ada", 4)
    assert values_of(service, connection, "ada") == [2], (
        "all that was answered is there, wherever the committed offsets are"
    )
    server.restart(lost_writes=1)
    with pytest.raises(Recovering):
        values_of(service, connection, "ada")
    advance(server, 0, 5)
    assert values_of(service, connection, "ada") == [1], (
        "the committed offsets say so; no micro-batch brought it in this test"
    )
    server.restart()
    assert values_of(service, connection, "ada") == [1]


def test_within_a_server_run_no_answer_is_missed() -> None:
    _, server, _, service, connection = world(deployment())
    applied(server, "ada", 3, 4)
    older = connection.run(service.read(checked(None, "strict", [{"user": "bob"}])))
    assert values_of(service, connection, "ada") == [2]
    applied(server, "bob", 2)
    assert values_of(service, connection, "bob", "ada", "eve") == [1, 2, 0]
    assert older.flags == ()


def test_entities_of_whom_too_many_are_ahead_are_missed_together() -> None:
    committed, at = OffsetVector({(TOPIC, 0): 5}), (TOPIC, 0)
    pending = Pending(most=4)
    for i in range(9):
        pending.saw("u", b"%d" % i, OffsetVector({at: 10 + i}), committed)
    pending.saw("w", b"0", OffsetVector({at: 7}), committed)
    assert not pending.recalls
    pending.restarted()
    assert pending.lacking("u", b"never", OffsetVector({at: 10}), [TOPIC]) == OffsetVector({at: 17})
    assert not pending.lacking("u", b"8", OffsetVector({at: 18}), [TOPIC])
    assert not pending.lacking("v", b"0", committed, [TOPIC])
    assert pending.lacking("w", b"0", committed, [TOPIC])
    pending.forget(OffsetVector({at: 17}), [TOPIC])
    assert pending.lacking("u", b"8", OffsetVector({at: 17}), [TOPIC])
    assert not pending.lacking("u", b"never", OffsetVector({at: 17}), [TOPIC])
    pending.forget(OffsetVector({at: 18}), [TOPIC])
    assert not pending.recalls


def test_what_many_server_runs_left_is_bounded_too() -> None:
    """A store that dies again and again, under a stream that does not come to apply anything."""
    at, committed = (TOPIC, 0), OffsetVector()
    pending = Pending(most=4)
    for run in range(20):
        for i in range(2):
            pending.saw("u", b"%d" % (2 * run + i), OffsetVector({at: 1 + i}), committed)
        pending.restarted()
        assert len(pending._before) <= 4
    assert pending.lacking("u", b"0", OffsetVector({at: 1}), [TOPIC]) == OffsetVector({at: 2}), (
        "all of them together"
    )
    pending.forget(OffsetVector({at: 2}), [TOPIC])
    assert not pending.recalls


def test_entities_that_the_committed_offsets_have_passed_make_room() -> None:
    at = (TOPIC, 0)
    pending = Pending(most=4)
    for i in range(40):
        pending.saw("u", b"%d" % i, OffsetVector({at: i + 1}), OffsetVector({at: i}))
    pending.restarted()
    assert pending.lacking("u", b"39", OffsetVector({at: 39}), [TOPIC])
    assert not pending.lacking("u", b"never", OffsetVector(), [TOPIC]), (
        "each is remembered by itself"
    )
