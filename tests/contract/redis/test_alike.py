"""The store in memory and a real server come to the same on random histories: every outcome, all
that is stored."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise import codec
from slicewise.clock import SystemClock
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.pending import WritePending
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.contract.conftest import Backend, new_unit
from tests.contract.test_apply_batch import hot
from tests.contract.test_pending import BOUND, RANGE, expiry, fields
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    Event,
    StoreDeployment,
    hour_entry,
    list_batch,
    list_unit,
    micro_batch,
    offset_vector,
    pending_batch,
    read_list,
)


def play(store: Store, seed: int) -> list[object]:
    """A random history of micro-batches, pending events, published hours and list writes: every
    outcome, and what stands after each."""
    rng = random.Random(seed)
    unit, lists = new_unit(slice_us=HOUR_US // 2), list_unit(RANGE, "00000000000000e9", "exact")
    unit = replace(unit, storage_fingerprint="00000000000000a9")
    store.run(Initialise())
    store.run(
        Deploy(
            StoreDeployment(f"seed {seed}", (unit, lists)),
            store.run(ReadMetadata()).deployment_version,
            {},
        )
    )
    hour = store.run(ReadTime()) // HOUR_US - 3
    log = [
        Event(
            rng.randrange(2),
            (hour - rng.choice((0, 0, 1, 50))) * HOUR_US + rng.randrange(HOUR_US),
            0,
            o,
        )
        for o in range(60)
    ]
    results: list[object] = []
    for _ in range(25):
        begin = rng.randrange(50)
        some, bound = log[begin : begin + rng.randint(1, 12)], rng.choice((3, 8, BOUND))
        room = codec.Room(rng.choice((1, 3, 64)), rng.choice((60, 150, 4096)))
        act = rng.randrange(6)
        if act < 2:
            results.append(store.run(WritePending(pending_batch(unit, some), bound, room)))
        elif act == 2:
            results.append(
                store.run(
                    ApplyBatch(
                        replace(micro_batch(unit, log[: begin + 5]), realtime=rng.random() < 0.5)
                    )
                )
            )
        elif act == 3:
            results.append(store.run(WritePending(pending_batch(lists, some), bound)))
        elif act == 4:
            results.append(store.run(AddToList(list_batch(lists, log[: begin + 5]))))
        else:
            own = [e for e in log[:begin] if e.entity == 1 and e.time_us // HOUR_US == hour]
            if own:
                results.append(
                    store.run(
                        PublishHour(unit, hour, 0, offset_vector(), [hour_entry(unit, 1, 0, own)])
                    )
                )
        for entity in range(2):
            reply = hot(store, unit, entity)
            results.append((sorted(fields(reply).items()), expiry(store, unit, entity)))
            result = read_list(store, lists, entity)[1]
            results.append((sorted(fields(result).items()), result.days))
    return results


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_memory_does_what_the_scripts_do(contract_store: Backend, seed: int) -> None:
    contract_store.empty()
    with contract_store.connect() as real, open_memory(MemoryServer(SystemClock())) as memory:
        assert play(real, seed) == play(memory, seed)
