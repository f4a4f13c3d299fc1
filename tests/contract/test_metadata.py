"""Metadata: store id, committed offsets, deployment, readiness, offset vectors; each claim changes
whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from slicewise.errors import (
    DefinitionError,
    DeploymentSuperseded,
    GapRefused,
    NotReady,
    ServerRunChanged,
    StoreUnavailable,
)
from slicewise.features.own import history_topic
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import RealtimeStart, ServerRun, StoreMetadata
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, ReadManifest, Renewal
from slicewise.stores.online.operations.pending import BeginRealtime, EndRealtime
from slicewise.stores.online.operations.publish_days import MarkHour, ReadHours
from slicewise.stores.online.operations.readiness import MarkBuilding, MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.port import NodesContext
from slicewise.stores.online.steps import Command, Whole
from slicewise.stores.online.store import Store
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.contract.conftest import Bench, new_unit, racing
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    TOPIC,
    Event,
    StoreDeployment,
    StoreUnit,
    hour_entry,
    micro_batch,
    offset_vector,
    tag,
)


def advance(store: Store, start: OffsetVector, end: OffsetVector) -> OffsetVector:
    metadata = store.run(ReadMetadata())
    return store.run(AdvanceCommitted(start, end, metadata.deployment_version, metadata.units))


def test_a_store_without_metadata_gets_a_store_id_once(connect: Callable[[], Store]) -> None:
    first, second = connect(), connect()
    with pytest.raises(NotReady):
        _ = first.store_id
    metadata = first.run(Initialise())
    assert (
        metadata.store_id
        == first.store_id
        == second.run(Initialise()).store_id
        == connect().store_id
    )
    assert (metadata.deployment_version, metadata.units, metadata.committed) == (
        0,
        "",
        OffsetVector(),
    )


def test_a_batch_that_leaves_a_gap_is_refused_at_both_ends(bench: Bench) -> None:
    advance(bench.store, offset_vector(), offset_vector(10, 5))
    metadata = bench.store.run(ReadMetadata())
    for start in (offset_vector(11, 5), offset_vector(10, 6), offset_vector(0, 0, 1)):
        with pytest.raises(GapRefused):
            bench.store.run(BeginBatch(start, metadata.deployment_version, metadata.units))
        with pytest.raises(GapRefused):
            bench.store.run(
                AdvanceCommitted(
                    start, offset_vector(20, 20, 20), metadata.deployment_version, metadata.units
                )
            )
    assert bench.store.run(ReadMetadata()) == metadata


def test_committed_offsets_never_fall(bench: Bench) -> None:
    assert advance(bench.store, offset_vector(), offset_vector(10, 5)) == offset_vector(10, 5)
    assert advance(bench.store, offset_vector(3), offset_vector(7, 9)) == offset_vector(10, 9)
    assert bench.store.run(ReadMetadata()).committed == offset_vector(10, 9)


def test_a_topic_begins_at_its_earliest_offset_when_it_is_deployed_and_an_added_partition_at_zero(
    connect: Callable[[], Store],
) -> None:
    store, unit = connect(), StoreUnit()
    store.run(Initialise())
    with pytest.raises(DefinitionError):
        store.run(Deploy(StoreDeployment("d", (unit,)), 0, {}, offset_vector(7, 3)))
    metadata = store.run(
        Deploy(StoreDeployment("d", (unit,)), 0, {"plays": TOPIC}, offset_vector(7, 3))
    )
    assert metadata.committed == metadata.starts[unit.storage_fingerprint] == offset_vector(7, 3)
    assert metadata.topics == {"plays": TOPIC}
    assert unit.storage_fingerprint not in metadata.ready, "history may lie below"
    with pytest.raises(GapRefused):
        advance(store, offset_vector(7, 3, 5), offset_vector(7, 3, 6))
    assert advance(store, offset_vector(7, 3, 0), offset_vector(7, 3, 6)) == offset_vector(7, 3, 6)


def test_a_known_topic_never_begins_later(bench: Bench) -> None:
    # The log's retention passed what the store holds: nothing may pretend that it is new, not even
    # where no batch has moved its committed offsets yet.
    bench.deploy(bench.store, bench.unit, topics={"plays": TOPIC}, earliest=offset_vector())
    bench.deploy(bench.store, bench.unit, topics={"plays": TOPIC}, earliest=offset_vector(4))
    assert bench.store.run(ReadMetadata()).committed == OffsetVector()
    with pytest.raises(GapRefused):
        advance(bench.store, offset_vector(4), offset_vector(9))


def test_a_batch_of_an_older_deployment_version_or_of_other_units_is_refused(bench: Bench) -> None:
    old = bench.store.run(ReadMetadata())
    bench.deploy(bench.store, bench.unit, new_unit())
    new = bench.store.run(ReadMetadata())
    assert new.deployment_version == old.deployment_version + 1
    for deployment_version, units in (
        (old.deployment_version, old.units),
        (new.deployment_version, old.units),
        (old.deployment_version, new.units),
    ):
        with pytest.raises(DeploymentSuperseded):
            bench.store.run(BeginBatch(offset_vector(), deployment_version, units))
        with pytest.raises(DeploymentSuperseded):
            bench.store.run(
                AdvanceCommitted(offset_vector(), offset_vector(1), deployment_version, units)
            )
    assert bench.store.run(ReadMetadata()).committed == OffsetVector()


def test_start_offsets_are_those_committed_at_deployment_and_never_move(bench: Bench) -> None:
    advance(bench.store, offset_vector(), offset_vector(10, 4))
    second = new_unit(view="other")
    bench.deploy(bench.store, bench.unit, second)
    advance(bench.store, offset_vector(10, 4), offset_vector(30, 30))
    bench.deploy(bench.store, bench.unit, second, new_unit())
    metadata = bench.store.run(ReadMetadata())
    assert metadata.starts[bench.unit.storage_fingerprint] == OffsetVector()
    assert metadata.starts[second.storage_fingerprint] == offset_vector(10, 4)


def test_a_history_begins_only_for_units_that_are_built_with_it(bench: Bench) -> None:
    """A unit that goes on would claim events that it lacks; one that is built again starts with
    them, and so does one that is deployed later."""
    history = OffsetVector({("f" * 32, 0): 7})
    unit, metadata = bench.unit, bench.store.run(ReadMetadata())
    deployment = StoreDeployment("history", (unit,))
    topics = {
        deployment.topic_of(unit.source): TOPIC,
        history_topic(deployment.topic_of(unit.source), unit.source): "f" * 32,
    }
    deploy = Deploy(deployment, metadata.deployment_version, topics, history)
    with pytest.raises(GapRefused, match="was not built with"):
        bench.store.run(deploy)
    renewal = Renewal(frozenset({unit.storage_fingerprint}))
    after = bench.store.run(replace(deploy, renewal=renewal))
    assert after.committed.dominates(history)
    assert after.starts[unit.storage_fingerprint].dominates(history)
    assert unit.storage_fingerprint not in after.ready
    later = new_unit(view="later")
    bench.deploy(bench.store, unit, later)
    assert bench.store.run(ReadMetadata()).starts[later.storage_fingerprint] == history


@pytest.mark.parametrize(
    "grown", [offset_vector(20), offset_vector(10, 10)], ids=["further", "a partition is added"]
)
def test_a_deployment_raced_by_the_committed_offsets_still_starts_at_the_committed_offsets(
    bench: Bench, grown: OffsetVector
) -> None:
    # Start offsets behind the committed offsets would leave out what neither micro-batch lane nor
    # backfill brings.
    advance(bench.store, offset_vector(), offset_vector(10))
    second, metadata = new_unit(), bench.store.run(ReadMetadata())
    other, reads = bench.connect(), list[Sequence[Command]]()

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole):
            reads.append(commands)
            if len(reads) == 1:
                other.run(
                    AdvanceCommitted(
                        offset_vector(10), grown, metadata.deployment_version, metadata.units
                    )
                )

    deployment = StoreDeployment("raced", (bench.unit, second))
    racing(
        bench.store,
        bench.store.steps(Deploy(deployment, metadata.deployment_version, {}, OffsetVector())),
        race,
    )
    assert (
        bench.store.run(ReadMetadata()).starts[second.storage_fingerprint]
        == bench.store.run(ReadMetadata()).committed
        == grown
    )


def test_deploying_what_stands_changes_nothing(bench: Bench) -> None:
    metadata = bench.store.run(ReadMetadata())
    again = StoreDeployment(metadata.units, (bench.unit,))
    assert (
        bench.store.run(Deploy(again, metadata.deployment_version))
        == bench.store.run(Deploy(again, metadata.deployment_version - 1))
        == metadata
    )
    with pytest.raises(DeploymentSuperseded):
        bench.store.run(
            Deploy(StoreDeployment("other", (bench.unit,)), metadata.deployment_version - 1)
        )
    assert bench.store.run(ReadManifest(metadata.units)) == again.to_json()
    assert bench.store.run(ReadManifest("unknown")) is None


def test_a_unit_that_is_left_out_is_gone_from_the_metadata_at_once(bench: Bench) -> None:
    name = bench.unit.storage_fingerprint
    assert bench.store.run(ReadMetadata()).retired == 0
    bench.deploy(bench.store, new_unit(view="other"))
    metadata = bench.store.run(ReadMetadata())
    assert metadata.retired == metadata.deployment_version
    assert "listening" not in metadata.aliases
    assert name not in {*metadata.starts, *metadata.ready, *metadata.builds}
    with pytest.raises(DeploymentSuperseded):
        bench.store.run(ApplyBatch(micro_batch(bench.unit, [Event(1, bench.hour_us, 0, 0)])))


def test_a_unit_that_comes_back_begins_a_build_of_its_own_at_the_committed_offsets(
    bench: Bench,
) -> None:
    name = bench.unit.storage_fingerprint
    advance(bench.store, offset_vector(), offset_vector(10))
    bench.store.run(ApplyBatch(micro_batch(bench.unit, [Event(1, bench.hour_us, 0, 5)])))
    bench.store.run(MarkHour(bench.unit, 5, 1))
    bench.deploy(bench.store, new_unit(view="other"))
    bench.deploy(bench.store, bench.unit)
    metadata = bench.store.run(ReadMetadata())
    assert metadata.starts[name] == offset_vector(10)
    assert metadata.builds == {name: metadata.deployment_version}
    assert metadata.name(name) == f"{name}.{metadata.deployment_version}"
    assert name not in metadata.ready
    assert bench.store.run(ReadHours(bench.unit)) == {}
    new_hot = keys.hot_key(metadata.store_id, tag(1), metadata.name(name))
    assert bench.store.run(Read([EntityRead((UnitRead(new_hot),))])).entities[0][0].hot == []
    again = bench.deploy(bench.store, bench.unit, new_unit(view="third"))
    assert again.digest == bench.store.run(ReadMetadata()).units
    assert bench.store.run(ReadMetadata()).builds[name] == metadata.deployment_version, (
        "a build goes on under later deployments"
    )


def test_what_a_connection_holds_is_written_to_its_own_build_and_claimed_of_no_other(
    bench: Bench,
) -> None:
    name, hour = bench.unit.storage_fingerprint, bench.hour
    zombie = bench.connect()
    zombie.run(HoldBuilds({name: 0}))
    bench.deploy(bench.store, new_unit(view="other"))
    bench.deploy(bench.store, bench.unit)
    metadata = bench.store.run(ReadMetadata())
    zombie.run(ApplyBatch(micro_batch(bench.unit, [Event(1, bench.hour_us, 0, 0)])))
    zombie.run(
        PublishHour(
            bench.unit,
            hour,
            0,
            offset_vector(),
            [hour_entry(bench.unit, 2, 0, [Event(2, bench.hour_us, 0, 0)])],
        )
    )
    day = hour * HOUR_US // DAY_US
    for entity in (1, 2):
        hot = keys.hot_key(metadata.store_id, tag(entity), metadata.name(name))
        days = keys.day_key(metadata.store_id, tag(entity), metadata.name(name), day)
        reply = bench.store.run(
            Read([EntityRead((UnitRead(hot, ((days, (keys.HOURS,)),)),))])
        ).entities[0][0]
        assert (reply.hot, reply.days) == ([], [[None]])
    for claim in (
        lambda: zombie.run(MarkHour(bench.unit, hour, 0)),
        lambda: zombie.run(MarkBuilding(bench.unit, 1, 2)),
        lambda: zombie.run(MarkReady(bench.unit, offset_vector())),
        lambda: bench.connect().run(HoldBuilds({name: 0})),
    ):
        with pytest.raises(DeploymentSuperseded):
            claim()
    assert bench.store.run(ReadMetadata()) == metadata
    bench.store.run(HoldBuilds({name: metadata.deployment_version}))
    assert bench.store.run(MarkHour(bench.unit, hour, 0))


def test_a_connection_that_holds_writes_nothing_of_units_that_it_does_not(bench: Bench) -> None:
    """A unit that is deployed later: one write would go to the build that stood at its begin, the
    claim to another."""
    planned = bench.connect()
    planned.run(HoldBuilds({bench.unit.storage_fingerprint: 0}))
    later = new_unit(view="later")
    bench.deploy(bench.store, bench.unit, later)
    for write in (
        lambda: planned.run(
            PublishHour(
                later,
                bench.hour,
                0,
                offset_vector(),
                [hour_entry(later, 2, 0, [Event(2, bench.hour_us, 0, 0)])],
            )
        ),
        lambda: planned.run(MarkHour(later, bench.hour, 0)),
        lambda: planned.run(ApplyBatch(micro_batch(later, [Event(1, bench.hour_us, 0, 0)]))),
    ):
        with pytest.raises(
            DeploymentSuperseded, match="was not deployed when this job was planned"
        ):
            write()
    assert bench.store.run(ReadHours(later)) == {}


def test_a_new_unit_has_a_build_once_any_unit_was_left_out(bench: Bench) -> None:
    # A name without a build may be that of a unit that was left out, and be swept.
    bench.deploy(bench.store, new_unit(view="other"))
    third = new_unit(view="third")
    bench.deploy(bench.store, third)
    metadata = bench.store.run(ReadMetadata())
    assert metadata.builds == {third.storage_fingerprint: metadata.deployment_version}


def test_a_deployment_between_metadata_and_data_is_no_answer(bench: Bench) -> None:
    # It may have left units out, and the sweep may have taken their keys.
    steps = bench.store.steps(Read([]))
    replies = []
    for command in next(steps):
        replies += bench.store.node.run([command])
        if isinstance(getattr(command, "command", command), Whole):
            bench.deploy(bench.connect(), new_unit(view="other"))
    with pytest.raises(StoreUnavailable):
        steps.send(replies)


def test_a_name_points_to_its_first_unit_at_once_and_to_a_later_one_when_ready(
    bench: Bench,
) -> None:
    first = bench.unit.storage_fingerprint
    assert bench.store.run(ReadMetadata()).aliases == {"listening": (first,)}
    assert first in bench.store.run(ReadMetadata()).ready, "nothing lies below its start offsets"
    advance(bench.store, offset_vector(), offset_vector(10))
    second = new_unit()
    bench.deploy(bench.store, bench.unit, second)
    name = second.storage_fingerprint
    assert name not in bench.store.run(ReadMetadata()).ready
    assert bench.store.run(ReadMetadata()).aliases == {"listening": (first,)}
    bench.store.run(MarkBuilding(second, 3, 4))
    assert bench.store.run(ReadMetadata()).building == {name: (3, 4)}
    with pytest.raises(GapRefused):
        bench.store.run(MarkReady(second, offset_vector(9)))
    bench.store.run(MarkReady(second, offset_vector(10), {"listening": [first, name]}))
    metadata: StoreMetadata = bench.store.run(ReadMetadata())
    assert metadata.ready == {first, name}
    assert metadata.aliases == {"listening": (first, name)}
    assert metadata.building == {}


def test_an_older_archive_version_never_replaces_a_newer_published_entry(bench: Bench) -> None:
    assert bench.store.run(MarkHour(bench.unit, 5, 2))
    assert bench.store.run(MarkHour(bench.unit, 5, 2))
    assert not bench.store.run(MarkHour(bench.unit, 5, 1))
    assert bench.store.run(MarkHour(bench.unit, 6, 0))
    assert bench.store.run(ReadHours(bench.unit)) == {5: 2, 6: 0}


def test_a_backfill_marks_what_it_brought_under_the_start_offsets_that_stand(bench: Bench) -> None:
    start = bench.store.run(ReadMetadata()).starts[bench.unit.storage_fingerprint]
    with pytest.raises(GapRefused):
        bench.store.run(MarkHour(bench.unit, 5, 0, start.join(offset_vector(3))))
    assert bench.store.run(ReadHours(bench.unit)) == {}
    assert bench.store.run(MarkHour(bench.unit, 5, 0, start))
    assert bench.store.run(ReadHours(bench.unit)) == {5: 0}


def test_an_emptied_store_refuses_the_connections_of_its_old_store_id(
    bench: Bench, empty: Callable[[], None]
) -> None:
    metadata, old = bench.store.run(ReadMetadata()), bench.store.server_run
    empty()
    new = bench.connect()
    new.run(Initialise())
    bench.deploy(new, bench.unit)
    assert new.server_run == old, "emptying keeps the server run: only the store id tells"
    assert new.store_id > bench.store.store_id
    refused: list[Callable[[], object]] = [
        lambda: bench.store.run(ReadMetadata()),
        lambda: bench.store.run(Initialise()),
        lambda: bench.store.run(
            BeginBatch(offset_vector(), metadata.deployment_version, metadata.units)
        ),
        lambda: bench.store.run(
            AdvanceCommitted(
                offset_vector(), offset_vector(1), metadata.deployment_version, metadata.units
            )
        ),
        lambda: bench.store.run(MarkReady(bench.unit, offset_vector())),
        lambda: bench.store.run(MarkBuilding(bench.unit, 1, 2)),
        lambda: bench.store.run(MarkHour(bench.unit, 5, 1)),
        lambda: bench.store.run(PutArchiveVersion("plays", 1, offset_vector(1))),
        lambda: bench.store.run(Read([])),
        lambda: bench.deploy(bench.store, bench.unit),
    ]
    for call in refused:
        with pytest.raises(ServerRunChanged):
            call()
    assert new.run(ReadMetadata()).committed == OffsetVector()
    assert new.run(ReadHours(bench.unit)) == {}


def test_status_is_what_was_put_last(bench: Bench) -> None:
    assert bench.store.run(ReadStatus("stream:plays")) is None
    bench.store.run(PutStatus("stream:plays", '{"lag": 1}'))
    bench.store.run(PutStatus("stream:plays", '{"lag": 0}'))
    assert bench.connect().run(ReadStatus("stream:plays")) == '{"lag": 0}'


def test_a_store_emptied_between_metadata_and_data_is_no_empty_answer(
    bench: Bench, empty: Callable[[], None]
) -> None:
    # The metadata would claim committed offsets for data that is gone.
    steps = bench.store.steps(Read([]))
    commands = next(steps)
    replies = []
    for command in commands:
        replies += bench.store.node.run([command])
        if isinstance(getattr(command, "command", command), Whole):
            empty()
            with bench.connect() as other:
                other.run(Initialise())
    with pytest.raises(ServerRunChanged):
        steps.send(replies)


def test_a_new_unit_starts_at_the_committed_offsets_of_its_own_topic_alone(bench: Bench) -> None:
    # another source's events are in no archive of this one: start offsets that named them could
    # never be reached
    other, second = "f" * 32, new_unit()
    advance(bench.store, offset_vector(), offset_vector(7))
    earliest = OffsetVector({(other, 0): 3})
    bench.deploy(
        bench.store, bench.unit, second, topics={"plays": TOPIC, "songs": other}, earliest=earliest
    )
    metadata = bench.store.run(ReadMetadata())
    assert metadata.starts[second.storage_fingerprint] == offset_vector(7)
    assert metadata.committed == offset_vector(7).join(earliest)


def test_the_real_time_lane_begins_at_or_before_the_committed_offsets_of_its_deployment_and_says_so(
    bench: Bench,
) -> None:
    advance(bench.store, offset_vector(), offset_vector(10, 5))
    metadata = bench.store.run(ReadMetadata())
    for start in (offset_vector(11, 5), offset_vector(10, 6), offset_vector(0, 0, 1)):
        with pytest.raises(GapRefused):
            bench.store.run(
                BeginRealtime("plays", start, metadata.deployment_version, metadata.units)
            )
    for deployment_version, units in (
        (metadata.deployment_version + 1, metadata.units),
        (metadata.deployment_version, "another"),
    ):
        with pytest.raises(DeploymentSuperseded):
            bench.store.run(BeginRealtime("plays", offset_vector(10, 5), deployment_version, units))
    assert bench.store.run(ReadMetadata()) == metadata
    for start in (offset_vector(10, 5), offset_vector(9), offset_vector()):
        begun = bench.store.run(
            BeginRealtime("plays", start, metadata.deployment_version, metadata.units)
        )
        assert begun == bench.store.run(ReadMetadata())
        assert begun.realtime_starts == {"plays": RealtimeStart(bench.store.server_run, start)}


def of_another_server_run(store: Store, server_run: ServerRun) -> None:
    """Binds the connection as one that was opened in this server run."""
    context = replace(store.context, server_run=server_run)
    if isinstance(context, NodesContext):
        context = replace(
            context,
            contexts=tuple(replace(node, server_run=server_run) for node in context.contexts),
        )
    store.context = context


def test_a_real_time_lanes_entry_stands_for_the_server_run_or_until_nothing_of_its_source_is_deployed(
    bench: Bench,
) -> None:
    metadata, server_run = bench.store.run(ReadMetadata()), bench.store.server_run
    for source in ("plays", "other"):
        bench.store.run(
            BeginRealtime(source, offset_vector(), metadata.deployment_version, metadata.units)
        )
    assert not bench.store.run(EndRealtime("plays")), (
        "a zombie may write beyond all that is applied"
    )
    assert set(bench.store.run(ReadMetadata()).realtime_starts) == {"plays", "other"}
    bench.deploy(bench.store, bench.unit)
    assert set(bench.store.run(ReadMetadata()).realtime_starts) == {"plays"}, (
        "nothing of the other source is deployed"
    )
    of_another_server_run(bench.store, ServerRun("1" * 40, server_run.replication_id))
    assert bench.store.run(EndRealtime("plays")), (
        "no writer of that server run has a connection any more"
    )
    assert not bench.store.run(EndRealtime("plays"))
    assert not bench.store.run(ReadMetadata()).realtime_starts


def test_a_real_time_lane_that_begins_while_the_entry_of_another_server_run_is_removed_keeps_its_own(
    bench: Bench,
) -> None:
    metadata, server_run, other = (
        bench.store.run(ReadMetadata()),
        bench.store.server_run,
        bench.connect(),
    )
    bench.store.run(
        BeginRealtime("plays", offset_vector(), metadata.deployment_version, metadata.units)
    )
    of_another_server_run(bench.store, ServerRun("1" * 40, server_run.replication_id))

    def race(commands: Sequence[Command]) -> None:
        if isinstance(commands[0], Whole):
            advance(other, other.run(ReadMetadata()).committed, offset_vector(1))
            other.run(
                BeginRealtime(
                    "plays", offset_vector(1), metadata.deployment_version, metadata.units
                )
            )

    assert not racing(bench.store, bench.store.steps(EndRealtime("plays")), race)
    assert bench.store.run(ReadMetadata()).realtime_starts == {
        "plays": RealtimeStart(server_run, offset_vector(1))
    }


def test_a_deployment_between_a_real_time_lane_plan_and_its_entry_refuses_it(bench: Bench) -> None:
    metadata, other = bench.store.run(ReadMetadata()), bench.connect()

    def race(commands: Sequence[Command]) -> None:
        if (
            isinstance(commands[0], Whole)
            and other.run(ReadMetadata()).deployment_version == metadata.deployment_version
        ):
            bench.deploy(other, bench.unit, new_unit())

    steps = bench.store.steps(
        BeginRealtime("plays", offset_vector(), metadata.deployment_version, metadata.units)
    )
    with pytest.raises(DeploymentSuperseded):
        racing(bench.store, steps, race)
    assert not bench.store.run(ReadMetadata()).realtime_starts
