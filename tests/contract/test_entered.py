"""Entries of committed offsets are dated by the latest clock, and go by themselves."""

from __future__ import annotations

import time

from slicewise.clock import ManualClock
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.committed import (
    ENTERED_KEPT_US,
    EnterCommitted,
    Entered,
    ReadEntered,
)
from slicewise.stores.online.operations.connecting import Initialise, ReadTime
from slicewise.windows.durations import HOUR_US
from tests.contract.conftest import Bench
from tests.support.stores.stored import offset_vector


def test_committed_offsets_are_entered_for_instants_and_read_in_their_order(bench: Bench) -> None:
    first = bench.store.run(EnterCommitted("plays", offset_vector(1), 0))
    time.sleep(0.001)
    second = bench.store.run(EnterCommitted("plays", offset_vector(7, 2), 0))
    bench.store.run(EnterCommitted("others", offset_vector(3), 0))
    assert first < second <= bench.store.run(ReadTime())
    wanted = [Entered(first, offset_vector(1).pack()), Entered(second, offset_vector(7, 2).pack())]
    assert bench.store.run(ReadEntered("plays", 0)) == wanted
    assert bench.store.run(ReadEntered("plays", first + 1)) == wanted[1:]
    assert bench.store.run(ReadEntered("plays", second + 1)) == []
    assert bench.store.run(ReadEntered("plays", 0, second - 1)) == wanted[:1]
    assert bench.store.run(ReadEntered("plays", 0, 5)) == []
    assert bench.store.run(ReadEntered("nobody", 0)) == []


def test_entered_offsets_go_by_themselves_and_are_read_over_all_hours_until_then() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    store = open_memory(MemoryServer(clock))
    store.run(Initialise())
    instants = []
    for _ in range(ENTERED_KEPT_US // (12 * HOUR_US) + 2):
        instants.append(store.run(EnterCommitted("plays", offset_vector(1), 0)))
        clock.advance(12 * HOUR_US)
    kept = [one.at_us for one in store.run(ReadEntered("plays", 0))]
    assert kept == instants[-3:], "an hour's entries go together, two days after its last"


def test_an_entry_is_dated_by_the_latest_clock_of_all_nodes(bench: Bench) -> None:
    later = bench.store.run(ReadTime()) + 5_000_000
    assert bench.store.run(EnterCommitted("plays", offset_vector(1), later)) == later
    before = bench.store.run(ReadTime())
    assert bench.store.run(EnterCommitted("plays", offset_vector(2), 0)) >= before
