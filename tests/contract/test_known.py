"""A store that lost what it had applied says so until it has it again; units are built again under new keys."""

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
from tests.support.stores.stored import TOPIC, Event, StoreDeployment, cover, fold_batch

OTHER = "e" * 32
TOPICS = {"plays": TOPIC}


def advance(store: Store, start: OffsetVector, end: OffsetVector) -> OffsetVector:
    marks = store.run(ReadMetadata())
    return store.run(AdvanceCommitted(start, end, marks.epoch, marks.units))


def test_what_is_known_to_have_been_applied_is_marked_until_the_ledger_is_there_again(bench: Bench) -> None:
    advance(bench.store, cover(), cover(10, 5))
    assert bench.store.run(MarkLostOffsets(cover(30, 5))).known == cover(30)
    assert bench.store.run(MarkLostOffsets(cover(20, 9))).known == cover(30, 9), "a smaller copy takes nothing back"
    advance(bench.store, cover(10, 5), cover(29, 9))
    assert bench.store.run(MarkLostOffsets(OffsetVector())).known == cover(30)
    advance(bench.store, cover(29, 9), cover(30, 9))
    assert bench.store.run(MarkLostOffsets(cover(30, 9))).known == OffsetVector()


def test_a_log_that_stands_no_more_is_never_waited_for(bench: Bench) -> None:
    bench.store.run(Deploy(StoreDeployment("named", (new_unit(),)), bench.store.run(ReadMetadata()).epoch, TOPICS))
    marks = bench.store.run(MarkLostOffsets(OffsetVector({(TOPIC, 0): 7, (OTHER, 0): 9})))
    assert set(marks.topics.values()) == {TOPIC}
    assert marks.known == cover(7)


def test_units_that_are_built_again_begin_a_term_at_the_ledger_and_no_other_unit_does(bench: Bench) -> None:
    one, two = new_unit(), new_unit()
    deployment = StoreDeployment("both", (one, two))
    marks = bench.store.run(Deploy(deployment, bench.store.run(ReadMetadata()).epoch))
    bench.store.run(ApplyBatch(fold_batch(one, [Event(0, 0, 0, 0)])))
    advance(bench.store, cover(), cover(10))
    again = bench.store.run(Deploy(deployment, marks.epoch, renewal=Renewal(frozenset({one.storage_fingerprint}))))
    name = one.storage_fingerprint
    assert again.epoch == marks.epoch + 1 == again.terms[name] == again.retired
    assert (again.starts[name], name in again.ready) == (cover(10), False)
    assert again.starts[two.storage_fingerprint] == marks.starts[two.storage_fingerprint]
    assert two.storage_fingerprint in again.ready
    assert again.name(two.storage_fingerprint) == marks.name(two.storage_fingerprint)
    assert again.aliases == marks.aliases, "a name is answered as building, not unknown"


def test_a_ledger_goes_on_beyond_what_was_applied_only_with_all_units_of_the_topic(bench: Bench) -> None:
    one, two = new_unit(), new_unit()
    deployment = StoreDeployment("all", (one, two))
    marks = bench.store.run(Deploy(deployment, bench.store.run(ReadMetadata()).epoch, TOPICS))
    advance(bench.store, cover(), cover(10, 8))
    names = frozenset({one.storage_fingerprint, two.storage_fingerprint})
    with pytest.raises(GapRefused, match="all units of the topic"):
        bench.store.run(Deploy(deployment, marks.epoch, renewal=Renewal(frozenset(list(names)[:1]), cover(20, 5))))
    again = bench.store.run(Deploy(deployment, marks.epoch, renewal=Renewal(names, cover(20, 5))))
    assert again.ledger == cover(20, 8), "no place goes back"
    assert {again.starts[name] for name in names} == {cover(20, 8)}
    assert not names & again.ready
