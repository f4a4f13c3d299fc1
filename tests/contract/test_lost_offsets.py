"""A store that lost what it had applied says so until it has it again; units are built again under
new keys."""

from __future__ import annotations

import pytest

from slicewise.errors import GapRefused
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.committed import AdvanceCommitted, MarkLostOffsets
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, Renewal
from slicewise.stores.online.store import Store
from tests.contract.conftest import Bench, new_unit
from tests.support.stores.stored import TOPIC, Event, StoreDeployment, micro_batch, offset_vector

OTHER = "e" * 32
TOPICS = {"plays": TOPIC}


def advance(store: Store, start: OffsetVector, end: OffsetVector) -> OffsetVector:
    metadata = store.run(ReadMetadata())
    return store.run(AdvanceCommitted(start, end, metadata.deployment_version, metadata.units))


def test_what_is_known_to_have_been_applied_is_marked_until_the_committed_offsets_are_there_again(
    bench: Bench,
) -> None:
    advance(bench.store, offset_vector(), offset_vector(10, 5))
    assert bench.store.run(MarkLostOffsets(offset_vector(30, 5))).lost_offsets == offset_vector(30)
    assert bench.store.run(MarkLostOffsets(offset_vector(20, 9))).lost_offsets == offset_vector(
        30, 9
    ), "a smaller copy takes nothing back"
    advance(bench.store, offset_vector(10, 5), offset_vector(29, 9))
    assert bench.store.run(MarkLostOffsets(OffsetVector())).lost_offsets == offset_vector(30)
    advance(bench.store, offset_vector(29, 9), offset_vector(30, 9))
    assert bench.store.run(MarkLostOffsets(offset_vector(30, 9))).lost_offsets == OffsetVector()


def test_a_log_that_stands_no_more_is_never_waited_for(bench: Bench) -> None:
    bench.store.run(
        Deploy(
            StoreDeployment("named", (new_unit(),)),
            bench.store.run(ReadMetadata()).deployment_version,
            TOPICS,
        )
    )
    metadata = bench.store.run(MarkLostOffsets(OffsetVector({(TOPIC, 0): 7, (OTHER, 0): 9})))
    assert set(metadata.topics.values()) == {TOPIC}
    assert metadata.lost_offsets == offset_vector(7)


def test_units_that_are_built_again_begin_a_build_at_the_committed_offsets_and_no_other_unit_does(
    bench: Bench,
) -> None:
    one, two = new_unit(), new_unit()
    deployment = StoreDeployment("both", (one, two))
    metadata = bench.store.run(
        Deploy(deployment, bench.store.run(ReadMetadata()).deployment_version)
    )
    bench.store.run(ApplyBatch(micro_batch(one, [Event(0, 0, 0, 0)])))
    advance(bench.store, offset_vector(), offset_vector(10))
    again = bench.store.run(
        Deploy(
            deployment,
            metadata.deployment_version,
            renewal=Renewal(frozenset({one.storage_fingerprint})),
        )
    )
    name = one.storage_fingerprint
    assert (
        again.deployment_version
        == metadata.deployment_version + 1
        == again.builds[name]
        == again.retired
    )
    assert (again.starts[name], name in again.ready) == (offset_vector(10), False)
    assert again.starts[two.storage_fingerprint] == metadata.starts[two.storage_fingerprint]
    assert two.storage_fingerprint in again.ready
    assert again.name(two.storage_fingerprint) == metadata.name(two.storage_fingerprint)
    assert again.aliases == metadata.aliases, "a name is answered as building, not unknown"


def test_committed_offsets_go_on_beyond_what_was_applied_only_with_all_units_of_the_topic(
    bench: Bench,
) -> None:
    one, two = new_unit(), new_unit()
    deployment = StoreDeployment("all", (one, two))
    metadata = bench.store.run(
        Deploy(deployment, bench.store.run(ReadMetadata()).deployment_version, TOPICS)
    )
    advance(bench.store, offset_vector(), offset_vector(10, 8))
    names = frozenset({one.storage_fingerprint, two.storage_fingerprint})
    with pytest.raises(GapRefused, match="all units of the topic"):
        bench.store.run(
            Deploy(
                deployment,
                metadata.deployment_version,
                renewal=Renewal(frozenset(list(names)[:1]), offset_vector(20, 5)),
            )
        )
    again = bench.store.run(
        Deploy(
            deployment, metadata.deployment_version, renewal=Renewal(names, offset_vector(20, 5))
        )
    )
    assert again.committed == offset_vector(20, 8), "no partition goes back"
    assert {again.starts[name] for name in names} == {offset_vector(20, 8)}
    assert not names & again.ready
