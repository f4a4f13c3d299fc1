"""Nodes whose units begin at different offset vectors: what is claimed of a node is what was
brought to that node."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slicewise.errors import GapRefused
from slicewise.features.declare.event_list import EventList
from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import (
    NOTHING,
    Compacted,
    DirtyHour,
    UnitHours,
    Why,
    dirty_hours,
    holds,
)
from slicewise.lifecycle.lifetime import TotalsClaim
from slicewise.offsets.vector import OffsetVector
from slicewise.stores import metadata_backup
from slicewise.stores.online.control_record import TotalUntil
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
)
from slicewise.stores.online.operations.connecting import (
    HoldBuilds,
    Initialise,
    ReadMetadata,
    ReadTime,
)
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.ids import unremembered
from slicewise.stores.online.operations.publish_days import MarkHour, ReadHours
from slicewise.stores.online.operations.publish_total import MarkTotal
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.several import (
    NAME,
    NOW_US,
    ON,
    UNIT,
    advance,
    deployed,
    one_node,
    servers,
)
from tests.support.stores.stored import (
    TOPIC,
    Event,
    StoreDeployment,
    StoreUnit,
    hour_entry,
    list_batch,
    list_unit,
    listed,
    offset_vector,
    read_list,
    topic_partition,
)

HOUR = NOW_US // HOUR_US // 24 * 24
EVER = StoreUnit(lifetime=True)
LISTED = list_unit(EventList(HOUR_US, 0, HOUR_US, 1_000))


@dataclass
class Apart:
    """Two nodes: the unit of the first begins at 10 and is ready, that of the second at `begins`,
    and is not."""

    nodes: list[MemoryServer]
    store: Store
    unit: StoreUnit

    def starts(self) -> list[OffsetVector]:
        return [
            node.starts[self.unit.storage_fingerprint]
            for node in self.store.run(ReadMetadata()).by_node
        ]

    def ready(self) -> list[bool]:
        return [
            self.unit.storage_fingerprint in node.ready
            for node in self.store.run(ReadMetadata()).by_node
        ]


def apart(unit: StoreUnit, begins: int) -> Apart:
    """The second was emptied."""
    nodes = servers()
    first = StoreUnit(storage_fingerprint="0" * 16, view="x")
    store = deployed(nodes, "first", first)
    advance(store, 10)
    wanted = StoreDeployment("one", (first, unit))
    store.run(Deploy(wanted, 1, {"plays": TOPIC}))
    store.run(MarkReady(unit, offset_vector(10), {unit.view: [unit.storage_fingerprint]}))
    nodes[1].flush()
    store = open_memory(*nodes)
    store.run(Initialise())
    metadata = store.run(Deploy(wanted, 2, {"plays": TOPIC}, offset_vector(begins)))
    store.run(HoldBuilds(metadata.builds))
    return Apart(nodes, store, unit)


def published(of: Apart) -> list[dict[int, int]]:
    return [dict(one_node(of.nodes, number).run(ReadHours(of.unit))) for number in (0, 1)]


def test_one_that_was_emptied_begins_apart_and_the_backfill_is_made_for_it() -> None:
    of = apart(UNIT, 5)
    assert (of.starts(), of.ready()) == ([offset_vector(10), offset_vector(5)], [True, False])
    assert of.store.run(ReadMetadata()).starts[NAME] == offset_vector(5)


def test_an_hour_of_an_archive_goes_to_the_nodes_whose_start_offsets_it_contains() -> None:
    of = apart(UNIT, 5)
    of.store.run(PutArchiveVersion("plays", 3, offset_vector(6)))
    entries = [hour_entry(UNIT, entity, 3, [Event(entity, HOUR * HOUR_US, 0, 1)]) for entity in ON]
    outcome = of.store.run(PublishHour(UNIT, HOUR, 3, offset_vector(6), entries))
    assert (outcome.published, outcome.stale, outcome.left_over) == (1, 1, ())
    assert of.store.run(MarkHour(UNIT, HOUR, 3))
    assert published(of) == [{}, {HOUR: 3}], "what the first has of the hour is claimed by nobody"
    of.store.run(PutArchiveVersion("plays", 2, offset_vector(4)))
    older = [hour_entry(UNIT, entity, 2, [Event(entity, HOUR * HOUR_US, 0, 1)]) for entity in ON]
    with pytest.raises(GapRefused):  # it contains that of none
        of.store.run(PublishHour(UNIT, HOUR, 2, offset_vector(4), older))


def test_an_hour_that_one_node_alone_has_is_brought_to_all_by_the_next_archive() -> None:
    of = apart(UNIT, 5)
    entries = [hour_entry(UNIT, entity, 0, [Event(entity, HOUR * HOUR_US, 0, 1)]) for entity in ON]
    of.store.run(PublishHour(UNIT, HOUR, 0, offset_vector(5), entries))
    of.store.run(MarkHour(UNIT, HOUR, 0, offset_vector(5)))
    of.store.run(MarkReady(UNIT, offset_vector(5), {UNIT.view: [NAME]}))
    assert of.ready() == [True, True]

    def dirty(archive_version: int, contained_now: OffsetVector) -> list[DirtyHour]:
        done = of.store.run(ReadHours(UNIT))
        compacted = Compacted(
            archive_version,
            holds(archive_version, contained_now, of.starts(), contained, done.get(HOUR, NOTHING)),
        )
        return dirty_hours(UnitHours({HOUR: 1}, {HOUR: compacted}, done), HOUR + 1)

    # what stands was compacted for the second's start offsets: to publish it again would bring it
    # to the second again
    assert dirty(0, offset_vector(5)) == [DirtyHour(HOUR, Why.EVENTS)]
    assert dirty(1, offset_vector(5)) == [DirtyHour(HOUR, Why.EVENTS)], (
        "nor does the first take it under an archive version of before"
    )
    of.store.run(PutArchiveVersion("plays", 3, offset_vector(12)))
    entries = [hour_entry(UNIT, entity, 3, [Event(entity, HOUR * HOUR_US, 0, 1)]) for entity in ON]
    assert dirty(3, offset_vector(12)) == [DirtyHour(HOUR, Why.PUBLISH)]
    assert of.store.run(PublishHour(UNIT, HOUR, 3, offset_vector(12), entries)).published == 2
    of.store.run(MarkHour(UNIT, HOUR, 3))
    assert dirty(3, offset_vector(12)) == []


def contained(offset_vector_of: OffsetVector) -> int:
    """Archive version n ends at 5 n."""
    return offset_vector_of.get(topic_partition()) // 5


def with_totals(begins: int) -> Apart:
    """The first has totals of archive version 4 before HOUR."""
    of = apart(EVER, begins)
    first = one_node(of.nodes, 0)
    announced = first.run(CountArchiveVersions("plays"))
    assert first.run(MarkTotal(EVER, HOUR, 4, announced))
    return of


def test_a_backfills_total_until_hour_is_that_of_the_node_that_it_was_made_for() -> None:
    of = with_totals(5)
    announced = of.store.run(CountArchiveVersions("plays"))
    assert of.store.run(
        MarkTotal(EVER, HOUR + 24, 0, announced, whole=True, start=offset_vector(5))
    ), "the first has a newer one"
    assert [node.totals_until[NAME] for node in of.store.run(ReadMetadata()).by_node] == [
        TotalUntil(HOUR, 4),
        TotalUntil(HOUR + 24, 0),
    ]
    with pytest.raises(GapRefused):
        of.store.run(MarkTotal(EVER, HOUR + 24, 0, announced, whole=True, start=offset_vector(7)))
    of.store.run(MarkReady(EVER, offset_vector(5), {EVER.view: [NAME]}))
    assert of.store.run(ReadMetadata()).ready == {NAME}


def test_totals_of_a_node_hold_what_lies_below_its_own_start_offsets() -> None:
    of = with_totals(5)
    assert moves.totals_claim(of.store.run(ReadMetadata()), NAME, contained) is None, (
        "the second has none yet"
    )
    of.store.run(
        MarkTotal(
            EVER,
            HOUR + 24,
            0,
            of.store.run(CountArchiveVersions("plays")),
            whole=True,
            start=offset_vector(5),
        )
    )
    of.store.run(MarkReady(EVER, offset_vector(5), {EVER.view: [NAME]}))
    assert of.store.run(ReadMetadata()).starts[NAME] == offset_vector(10), (
        "of units that are ready nobody makes a backfill"
    )
    assert moves.totals_claim(of.store.run(ReadMetadata()), NAME, contained) == TotalsClaim(HOUR, 1)
    hours = UnitHours({HOUR - 1: 2}, {HOUR - 1: Compacted(2, 2)}, {})
    claim = moves.totals_claim(of.store.run(ReadMetadata()), NAME, contained)
    assert claim is not None
    assert moves.late_hours(hours, claim) == [HOUR - 1], (
        "the second has that event running, and a move would delete it"
    )


def test_hours_are_kept_that_any_node_keeps() -> None:
    of = with_totals(5)
    assert moves.kept_from(of.store.run(ReadMetadata()), NAME, HOUR + 48) == HOUR
    assert moves.kept_from(one_node(of.nodes, 1).run(ReadMetadata()), NAME, HOUR + 48) == HOUR + 48


def test_a_list_is_filled_on_the_node_that_lacks_it() -> None:
    """The other may have applied less than the backfill holds."""
    of = apart(LISTED, 15)
    now = of.store.run(ReadTime())
    events = [Event(entity, now, 0, 12 + i) for i, entity in enumerate(ON)]
    outcome = of.store.run(AddToList(list_batch(LISTED, events, fill=offset_vector(15))))
    assert (outcome.rows, outcome.applied, outcome.already_applied) == (2, 1, 1)
    results = [
        read_list(one_node(of.nodes, number), LISTED, entity)[1] for number, entity in enumerate(ON)
    ]
    assert [listed(members) for members in results] == [[], [(0, 13)]]
    with pytest.raises(GapRefused):
        of.store.run(AddToList(list_batch(LISTED, events, fill=offset_vector(14))))


def test_a_deployment_is_missed_also_where_the_last_node_that_knew_it_was_set_back_beside_an_empty_one() -> (
    None
):
    nodes = servers()
    store = deployed(nodes)
    other = StoreUnit(storage_fingerprint="00000000000000bb", view="other")
    store.run(Deploy(StoreDeployment("two", (UNIT, other)), 1))
    seen = metadata_backup.of(store.run(ReadMetadata()))
    assert (seen.deployment_version, seen.units) == (2, "two")
    assert nodes[0].restart(1) == 1
    nodes[1].flush()
    store = open_memory(*nodes)
    result = store.run(Initialise())
    assert (result.deployment_version, result.units, result.behind) == (1, "one", (1,))
    # as whoever finds a node behind does
    result = store.run(Deploy(StoreDeployment("one", (UNIT,)), 1))
    assert (result.units, result.behind) == ("one", ())
    assert seen.to_be_deployed(result)
    assert seen.after(result).units == "two"
    result = store.run(Deploy(StoreDeployment("two", (UNIT, other)), result.deployment_version))
    assert (result.units, result.behind, seen.after(result).to_be_deployed(result)) == (
        "two",
        (),
        False,
    )


def test_a_stream_begins_before_the_ids_that_any_node_must_know() -> None:
    of = apart(UNIT, 5)
    advance(one_node(of.nodes, 1), 20)
    metadata = of.store.run(ReadMetadata())
    assert unremembered(metadata.committed, [metadata.starts[NAME]]) == {}
    assert unremembered(metadata.committed, metadata.starts_of([NAME])) == {topic_partition(): 10}
