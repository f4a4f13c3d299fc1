"""Marks: generation, ledger, deployment, readiness, covers; each claim changes whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from slicewise.errors import (
    DefinitionError,
    EpochSuperseded,
    GapRefused,
    IncarnationChanged,
    NotReady,
    StoreUnavailable,
)
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import RealtimeStart, ServerRun, StoreMetadata
from slicewise.stores.online.operation import NodesContext
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest
from slicewise.stores.online.operations.pending import BeginRealtime, EndRealtime
from slicewise.stores.online.operations.publish_hour import MarkHour, PublishHour, ReadHours
from slicewise.stores.online.operations.readiness import MarkBuilding, MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.steps import Command, Whole
from slicewise.stores.online.store import Store
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.contract.conftest import Bench, new_unit, racing
from tests.support.stores.stored import TOPIC, Event, StoreDeployment, StoreUnit, cover, fold_batch, hour_entry, tag


def advance(store: Store, start: OffsetVector, end: OffsetVector) -> OffsetVector:
    marks = store.run(ReadMetadata())
    return store.run(AdvanceCommitted(start, end, marks.epoch, marks.units))


def test_a_store_without_marks_gets_a_generation_once(connect: Callable[[], Store]) -> None:
    first, second = connect(), connect()
    with pytest.raises(NotReady):
        _ = first.generation
    marks = first.run(Initialise())
    assert marks.generation == first.generation == second.run(Initialise()).generation == connect().generation
    assert (marks.epoch, marks.units, marks.ledger) == (0, "", OffsetVector())


def test_a_batch_that_leaves_a_gap_is_refused_at_both_ends(bench: Bench) -> None:
    advance(bench.store, cover(), cover(10, 5))
    marks = bench.store.run(ReadMetadata())
    for start in (cover(11, 5), cover(10, 6), cover(0, 0, 1)):
        with pytest.raises(GapRefused):
            bench.store.run(BeginBatch(start, marks.epoch, marks.units))
        with pytest.raises(GapRefused):
            bench.store.run(AdvanceCommitted(start, cover(20, 20, 20), marks.epoch, marks.units))
    assert bench.store.run(ReadMetadata()) == marks


def test_the_ledger_never_falls(bench: Bench) -> None:
    assert advance(bench.store, cover(), cover(10, 5)) == cover(10, 5)
    assert advance(bench.store, cover(3), cover(7, 9)) == cover(10, 9)
    assert bench.store.run(ReadMetadata()).ledger == cover(10, 9)


def test_a_topic_begins_at_its_earliest_offset_when_it_is_deployed_and_an_added_partition_at_zero(
    connect: Callable[[], Store],
) -> None:
    store, unit = connect(), StoreUnit()
    store.run(Initialise())
    with pytest.raises(DefinitionError):
        store.run(Deploy(StoreDeployment("d", (unit,)), 0, {}, cover(7, 3)))
    marks = store.run(Deploy(StoreDeployment("d", (unit,)), 0, {"plays": TOPIC}, cover(7, 3)))
    assert marks.ledger == marks.starts[unit.storage_fingerprint] == cover(7, 3)
    assert marks.topics == {"plays": TOPIC}
    assert unit.storage_fingerprint not in marks.ready, "history may lie below"
    with pytest.raises(GapRefused):
        advance(store, cover(7, 3, 5), cover(7, 3, 6))
    assert advance(store, cover(7, 3, 0), cover(7, 3, 6)) == cover(7, 3, 6)


def test_a_known_topic_never_begins_later(bench: Bench) -> None:
    # The log's retention passed what the store holds: nothing may pretend that it is new, not even
    # where no batch has moved its ledger yet.
    bench.deploy(bench.store, bench.unit, topics={"plays": TOPIC}, earliest=cover())
    bench.deploy(bench.store, bench.unit, topics={"plays": TOPIC}, earliest=cover(4))
    assert bench.store.run(ReadMetadata()).ledger == OffsetVector()
    with pytest.raises(GapRefused):
        advance(bench.store, cover(4), cover(9))


def test_a_batch_of_an_older_epoch_or_of_other_units_is_refused(bench: Bench) -> None:
    old = bench.store.run(ReadMetadata())
    bench.deploy(bench.store, bench.unit, new_unit())
    new = bench.store.run(ReadMetadata())
    assert new.epoch == old.epoch + 1
    for epoch, units in ((old.epoch, old.units), (new.epoch, old.units), (old.epoch, new.units)):
        with pytest.raises(EpochSuperseded):
            bench.store.run(BeginBatch(cover(), epoch, units))
        with pytest.raises(EpochSuperseded):
            bench.store.run(AdvanceCommitted(cover(), cover(1), epoch, units))
    assert bench.store.run(ReadMetadata()).ledger == OffsetVector()


def test_a_start_cover_is_the_ledger_at_deployment_and_never_moves(bench: Bench) -> None:
    advance(bench.store, cover(), cover(10, 4))
    second = new_unit(view="other")
    bench.deploy(bench.store, bench.unit, second)
    advance(bench.store, cover(10, 4), cover(30, 30))
    bench.deploy(bench.store, bench.unit, second, new_unit())
    marks = bench.store.run(ReadMetadata())
    assert marks.starts[bench.unit.storage_fingerprint] == OffsetVector()
    assert marks.starts[second.storage_fingerprint] == cover(10, 4)


@pytest.mark.parametrize("grown", [cover(20), cover(10, 10)], ids=["further", "a place is added"])
def test_a_deployment_raced_by_the_ledger_still_starts_at_the_ledger(bench: Bench, grown: OffsetVector) -> None:
    # A start cover behind the ledger would leave out what neither fold nor backfill brings.
    advance(bench.store, cover(), cover(10))
    second, marks = new_unit(), bench.store.run(ReadMetadata())
    other, reads = bench.connect(), list[Sequence[Command]]()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole):
            reads.append(commands)
            if len(reads) == 1:
                other.run(AdvanceCommitted(cover(10), grown, marks.epoch, marks.units))

    deployment = StoreDeployment("raced", (bench.unit, second))
    racing(bench.store, bench.store.steps(Deploy(deployment, marks.epoch, {}, OffsetVector())), race)
    assert (
        bench.store.run(ReadMetadata()).starts[second.storage_fingerprint]
        == bench.store.run(ReadMetadata()).ledger
        == grown
    )


def test_deploying_what_stands_changes_nothing(bench: Bench) -> None:
    marks = bench.store.run(ReadMetadata())
    again = StoreDeployment(marks.units, (bench.unit,))
    assert bench.store.run(Deploy(again, marks.epoch)) == bench.store.run(Deploy(again, marks.epoch - 1)) == marks
    with pytest.raises(EpochSuperseded):
        bench.store.run(Deploy(StoreDeployment("other", (bench.unit,)), marks.epoch - 1))
    assert bench.store.run(ReadManifest(marks.units)) == again.to_json()
    assert bench.store.run(ReadManifest("unknown")) is None


def test_a_unit_that_is_left_out_is_gone_from_the_marks_at_once(bench: Bench) -> None:
    name = bench.unit.storage_fingerprint
    assert bench.store.run(ReadMetadata()).retired == 0
    bench.deploy(bench.store, new_unit(view="other"))
    marks = bench.store.run(ReadMetadata())
    assert marks.retired == marks.epoch
    assert "listening" not in marks.aliases
    assert name not in {*marks.starts, *marks.ready, *marks.terms}
    with pytest.raises(EpochSuperseded):
        bench.store.run(ApplyBatch(fold_batch(bench.unit, [Event(1, bench.hour_us, 0, 0)])))


def test_a_unit_that_comes_back_begins_a_term_of_its_own_at_the_ledger(bench: Bench) -> None:
    name = bench.unit.storage_fingerprint
    advance(bench.store, cover(), cover(10))
    bench.store.run(ApplyBatch(fold_batch(bench.unit, [Event(1, bench.hour_us, 0, 5)])))
    bench.store.run(MarkHour(bench.unit, 5, 1))
    bench.deploy(bench.store, new_unit(view="other"))
    bench.deploy(bench.store, bench.unit)
    marks = bench.store.run(ReadMetadata())
    assert marks.starts[name] == cover(10)
    assert marks.terms == {name: marks.epoch}
    assert marks.name(name) == f"{name}.{marks.epoch}"
    assert name not in marks.ready
    assert bench.store.run(ReadHours(bench.unit)) == {}
    new_hot = keys.hot_key(marks.generation, tag(1), marks.name(name))
    assert bench.store.run(Read([EntityRead((UnitRead(new_hot),))])).entities[0][0].hot == []
    again = bench.deploy(bench.store, bench.unit, new_unit(view="third"))
    assert again.digest == bench.store.run(ReadMetadata()).units
    assert bench.store.run(ReadMetadata()).terms[name] == marks.epoch, "a term goes on under later deployments"


def test_what_a_connection_holds_is_written_to_its_own_term_and_claimed_of_no_other(bench: Bench) -> None:
    name, hour = bench.unit.storage_fingerprint, bench.hour
    zombie = bench.connect()
    zombie.run(HoldBuilds({name: 0}))
    bench.deploy(bench.store, new_unit(view="other"))
    bench.deploy(bench.store, bench.unit)
    marks = bench.store.run(ReadMetadata())
    zombie.run(ApplyBatch(fold_batch(bench.unit, [Event(1, bench.hour_us, 0, 0)])))
    zombie.run(
        PublishHour(bench.unit, hour, 0, cover(), [hour_entry(bench.unit, 2, 0, [Event(2, bench.hour_us, 0, 0)])])
    )
    day = hour * HOUR_US // DAY_US
    for entity in (1, 2):
        hot = keys.hot_key(marks.generation, tag(entity), marks.name(name))
        days = keys.day_key(marks.generation, tag(entity), marks.name(name), day)
        reply = bench.store.run(Read([EntityRead((UnitRead(hot, ((days, (keys.HOURS,)),)),))])).entities[0][0]
        assert (reply.hot, reply.days) == ([], [[None]])
    for claim in (
        lambda: zombie.run(MarkHour(bench.unit, hour, 0)),
        lambda: zombie.run(MarkBuilding(bench.unit, 1, 2)),
        lambda: zombie.run(MarkReady(bench.unit, cover())),
        lambda: bench.connect().run(HoldBuilds({name: 0})),
    ):
        with pytest.raises(EpochSuperseded):
            claim()
    assert bench.store.run(ReadMetadata()) == marks
    bench.store.run(HoldBuilds({name: marks.epoch}))
    assert bench.store.run(MarkHour(bench.unit, hour, 0))


def test_a_connection_that_holds_writes_nothing_of_units_that_it_does_not(bench: Bench) -> None:
    """A unit that is deployed later: one write would go to the term that stood at its begin, the claim to another."""
    planned = bench.connect()
    planned.run(HoldBuilds({bench.unit.storage_fingerprint: 0}))
    later = new_unit(view="later")
    bench.deploy(bench.store, bench.unit, later)
    for write in (
        lambda: planned.run(
            PublishHour(later, bench.hour, 0, cover(), [hour_entry(later, 2, 0, [Event(2, bench.hour_us, 0, 0)])])
        ),
        lambda: planned.run(MarkHour(later, bench.hour, 0)),
        lambda: planned.run(ApplyBatch(fold_batch(later, [Event(1, bench.hour_us, 0, 0)]))),
    ):
        with pytest.raises(EpochSuperseded, match="was not deployed when this job was planned"):
            write()
    assert bench.store.run(ReadHours(later)) == {}


def test_a_new_unit_has_a_term_once_any_unit_was_left_out(bench: Bench) -> None:
    # A name without a term may be that of a unit that was left out, and be swept.
    bench.deploy(bench.store, new_unit(view="other"))
    third = new_unit(view="third")
    bench.deploy(bench.store, third)
    marks = bench.store.run(ReadMetadata())
    assert marks.terms == {third.storage_fingerprint: marks.epoch}


def test_a_deployment_between_marks_and_data_is_no_answer(bench: Bench) -> None:
    # It may have left units out, and the sweep may have taken their keys.
    steps = bench.store.steps(Read([]))
    replies = []
    for command in next(steps):
        replies += bench.store.node.run([command])
        if isinstance(getattr(command, "command", command), Whole):
            bench.deploy(bench.connect(), new_unit(view="other"))
    with pytest.raises(StoreUnavailable):
        steps.send(replies)


def test_a_name_points_to_its_first_unit_at_once_and_to_a_later_one_when_ready(bench: Bench) -> None:
    first = bench.unit.storage_fingerprint
    assert bench.store.run(ReadMetadata()).aliases == {"listening": (first,)}
    assert first in bench.store.run(ReadMetadata()).ready, "nothing lies below its start cover"
    advance(bench.store, cover(), cover(10))
    second = new_unit()
    bench.deploy(bench.store, bench.unit, second)
    name = second.storage_fingerprint
    assert name not in bench.store.run(ReadMetadata()).ready
    assert bench.store.run(ReadMetadata()).aliases == {"listening": (first,)}
    bench.store.run(MarkBuilding(second, 3, 4))
    assert bench.store.run(ReadMetadata()).building == {name: (3, 4)}
    with pytest.raises(GapRefused):
        bench.store.run(MarkReady(second, cover(9)))
    bench.store.run(MarkReady(second, cover(10), {"listening": [first, name]}))
    marks: StoreMetadata = bench.store.run(ReadMetadata())
    assert marks.ready == {first, name}
    assert marks.aliases == {"listening": (first, name)}
    assert marks.building == {}


def test_an_older_seq_never_replaces_a_newer_swapped_mark(bench: Bench) -> None:
    assert bench.store.run(MarkHour(bench.unit, 5, 2))
    assert bench.store.run(MarkHour(bench.unit, 5, 2))
    assert not bench.store.run(MarkHour(bench.unit, 5, 1))
    assert bench.store.run(MarkHour(bench.unit, 6, 0))
    assert bench.store.run(ReadHours(bench.unit)) == {5: 2, 6: 0}


def test_a_backfill_marks_what_it_brought_under_the_start_cover_that_stands(bench: Bench) -> None:
    start = bench.store.run(ReadMetadata()).starts[bench.unit.storage_fingerprint]
    with pytest.raises(GapRefused):
        bench.store.run(MarkHour(bench.unit, 5, 0, start.join(cover(3))))
    assert bench.store.run(ReadHours(bench.unit)) == {}
    assert bench.store.run(MarkHour(bench.unit, 5, 0, start))
    assert bench.store.run(ReadHours(bench.unit)) == {5: 0}


def test_an_emptied_store_refuses_the_connections_of_its_old_generation(
    bench: Bench, empty: Callable[[], None]
) -> None:
    marks, old = bench.store.run(ReadMetadata()), bench.store.incarnation
    empty()
    new = bench.connect()
    new.run(Initialise())
    bench.deploy(new, bench.unit)
    assert new.incarnation == old, "emptying keeps the incarnation: only the generation tells"
    assert new.generation > bench.store.generation
    refused: list[Callable[[], object]] = [
        lambda: bench.store.run(ReadMetadata()),
        lambda: bench.store.run(Initialise()),
        lambda: bench.store.run(BeginBatch(cover(), marks.epoch, marks.units)),
        lambda: bench.store.run(AdvanceCommitted(cover(), cover(1), marks.epoch, marks.units)),
        lambda: bench.store.run(MarkReady(bench.unit, cover())),
        lambda: bench.store.run(MarkBuilding(bench.unit, 1, 2)),
        lambda: bench.store.run(MarkHour(bench.unit, 5, 1)),
        lambda: bench.store.run(PutArchiveVersion("plays", 1, cover(1))),
        lambda: bench.store.run(Read([])),
        lambda: bench.deploy(bench.store, bench.unit),
    ]
    for call in refused:
        with pytest.raises(IncarnationChanged):
            call()
    assert new.run(ReadMetadata()).ledger == OffsetVector()
    assert new.run(ReadHours(bench.unit)) == {}


def test_status_is_what_was_put_last(bench: Bench) -> None:
    assert bench.store.run(ReadStatus("stream:plays")) is None
    bench.store.run(PutStatus("stream:plays", '{"lag": 1}'))
    bench.store.run(PutStatus("stream:plays", '{"lag": 0}'))
    assert bench.connect().run(ReadStatus("stream:plays")) == '{"lag": 0}'


def test_a_store_emptied_between_marks_and_data_is_no_empty_answer(bench: Bench, empty: Callable[[], None]) -> None:
    # The marks would claim a ledger for data that is gone.
    steps = bench.store.steps(Read([]))
    commands = next(steps)
    replies = []
    for command in commands:
        replies += bench.store.node.run([command])
        if isinstance(getattr(command, "command", command), Whole):
            empty()
            with bench.connect() as other:
                other.run(Initialise())
    with pytest.raises(IncarnationChanged):
        steps.send(replies)


def test_a_new_unit_starts_at_the_ledger_of_its_own_topic_alone(bench: Bench) -> None:
    # another source's events are in no archive of this one: a start cover that named them could never be reached
    other, second = "f" * 32, new_unit()
    advance(bench.store, cover(), cover(7))
    earliest = OffsetVector({(other, 0): 3})
    bench.deploy(bench.store, bench.unit, second, topics={"plays": TOPIC, "songs": other}, earliest=earliest)
    marks = bench.store.run(ReadMetadata())
    assert marks.starts[second.storage_fingerprint] == cover(7)
    assert marks.ledger == cover(7).join(earliest)


def test_a_tail_begins_at_or_before_the_ledger_of_its_deployment_and_says_so(bench: Bench) -> None:
    advance(bench.store, cover(), cover(10, 5))
    marks = bench.store.run(ReadMetadata())
    for start in (cover(11, 5), cover(10, 6), cover(0, 0, 1)):
        with pytest.raises(GapRefused):
            bench.store.run(BeginRealtime("plays", start, marks.epoch, marks.units))
    for epoch, units in ((marks.epoch + 1, marks.units), (marks.epoch, "another")):
        with pytest.raises(EpochSuperseded):
            bench.store.run(BeginRealtime("plays", cover(10, 5), epoch, units))
    assert bench.store.run(ReadMetadata()) == marks
    for start in (cover(10, 5), cover(9), cover()):
        begun = bench.store.run(BeginRealtime("plays", start, marks.epoch, marks.units))
        assert begun == bench.store.run(ReadMetadata())
        assert begun.tails == {"plays": RealtimeStart(bench.store.incarnation, start)}


def of_another_life(store: Store, life: ServerRun) -> None:
    """Binds the connection as one that was opened in this life."""
    context = replace(store.context, server_run=life)
    if isinstance(context, NodesContext):
        context = replace(context, contexts=tuple(replace(node, server_run=life) for node in context.contexts))
    store.context = context


def test_a_tails_mark_stands_for_the_life_of_the_store_or_until_nothing_of_its_source_is_deployed(
    bench: Bench,
) -> None:
    marks, life = bench.store.run(ReadMetadata()), bench.store.incarnation
    for source in ("plays", "other"):
        bench.store.run(BeginRealtime(source, cover(), marks.epoch, marks.units))
    assert not bench.store.run(EndRealtime("plays")), "a zombie may write beyond all that is folded"
    assert set(bench.store.run(ReadMetadata()).tails) == {"plays", "other"}
    bench.deploy(bench.store, bench.unit)
    assert set(bench.store.run(ReadMetadata()).tails) == {"plays"}, "nothing of the other source is deployed"
    of_another_life(bench.store, ServerRun("1" * 40, life.replication_id))
    assert bench.store.run(EndRealtime("plays")), "no writer of that life has a connection any more"
    assert not bench.store.run(EndRealtime("plays"))
    assert not bench.store.run(ReadMetadata()).tails


def test_a_tail_that_begins_while_the_mark_of_another_life_is_removed_keeps_its_own(bench: Bench) -> None:
    marks, life, other = bench.store.run(ReadMetadata()), bench.store.incarnation, bench.connect()
    bench.store.run(BeginRealtime("plays", cover(), marks.epoch, marks.units))
    of_another_life(bench.store, ServerRun("1" * 40, life.replication_id))

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole):
            advance(other, other.run(ReadMetadata()).ledger, cover(1))
            other.run(BeginRealtime("plays", cover(1), marks.epoch, marks.units))

    assert not racing(bench.store, bench.store.steps(EndRealtime("plays")), race)
    assert bench.store.run(ReadMetadata()).tails == {"plays": RealtimeStart(life, cover(1))}


def test_a_deployment_between_a_tails_plan_and_its_mark_refuses_it(bench: Bench) -> None:
    marks, other = bench.store.run(ReadMetadata()), bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole) and other.run(ReadMetadata()).epoch == marks.epoch:
            bench.deploy(other, bench.unit, new_unit())

    steps = bench.store.steps(BeginRealtime("plays", cover(), marks.epoch, marks.units))
    with pytest.raises(EpochSuperseded):
        racing(bench.store, steps, race)
    assert not bench.store.run(ReadMetadata()).tails
