"""Operations of the online store per second on this machine, against a real server: JSON and a
table.

Micro-batches: distinct entities of one batch, one script each, whole path (read, combine, write).
Reads: one entity with 24 compacted hours, metadata and time included, one request at a time.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import redis

from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch, MicroBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.connecting import Initialise, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.steps import Change
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.support.platform.servers import RedisServer
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    Event,
    StoreDeployment,
    StoreUnit,
    hour_entry,
    micro_batch,
    offset_vector,
    tag,
)

ENTITIES = 4_096
ROUNDS = 10


def applies(
    store: Store, unit: StoreUnit, hour: int, server_cpu: Callable[[], float]
) -> dict[str, float]:
    """New entities, then the same ones again, each with a running partial to combine with; also the
    processor time of both sides, which a busy machine does not change."""
    out = {}
    for kind in ("new", "running"):
        batches: list[MicroBatch] = []
        for i in range(ROUNDS):
            offsets = (i + (ROUNDS if kind == "running" else 0)) * ENTITIES
            events = [Event(e, hour * HOUR_US, 0, offsets + e) for e in range(ENTITIES)]
            batches.append(micro_batch(unit, events, name=f"u{i}"))
        begun, ours, theirs = time.perf_counter(), time.process_time(), server_cpu()
        applied = sum(store.run(ApplyBatch(batch)).applied for batch in batches)
        out[f"fold_{kind}_per_s"] = applied / (time.perf_counter() - begun)
        out[f"fold_{kind}_client_cpu_us"] = (time.process_time() - ours) / applied * 1e6
        out[f"fold_{kind}_server_cpu_us"] = (server_cpu() - theirs) / applied * 1e6
        assert applied == ROUNDS * ENTITIES
    return out


def scripts(store: Store, unit: StoreUnit, hour: int, name: str) -> float:
    """Scripts per second alone: the changes of one batch, ready made, in one pipeline."""
    events = [Event(e, hour * HOUR_US, 0, e) for e in range(ENTITIES)]
    steps = store.steps(ApplyBatch(micro_batch(unit, events, name=name)))
    commands = next(steps)
    while not isinstance(commands[0], Change):
        commands = steps.send(store.node.run(commands))
    begun = time.perf_counter()
    replies = store.node.run(commands)
    seconds = time.perf_counter() - begun
    assert replies == [0] * ENTITIES
    return ENTITIES / seconds


def reads(store: Store, unit: StoreUnit, hour: int) -> dict[str, float]:
    hours = range(hour - 24, hour)
    store.run(PutArchiveVersion(unit.source, 1, offset_vector(10**9)))
    for h in hours:
        store.run(
            PublishHour(
                unit,
                h,
                1,
                offset_vector(10**9),
                [hour_entry(unit, 1, 1, [Event(1, h * HOUR_US, 0, h - hour + 24)])],
            )
        )
    for slot in range(6):
        store.run(
            ApplyBatch(
                micro_batch(
                    unit, [Event(1, hour * HOUR_US + slot * unit.slice_us, 0, 10**9 + slot)]
                )
            )
        )
    days = sorted({h // 24 for h in hours})
    name = unit.storage_fingerprint
    read = EntityRead(
        (
            UnitRead(
                keys.hot_key(store.store_id, tag(1), name),
                tuple(
                    (
                        keys.day_key(store.store_id, tag(1), name, day),
                        (keys.HOURS, *[keys.hour_fields(h)[0] for h in hours if h // 24 == day]),
                    )
                    for day in days
                ),
            ),
        )
    )
    times = []
    for _ in range(4_000):
        begun = time.perf_counter()
        reply = store.run(Read([read]))
        times.append((time.perf_counter() - begun) * 1e3)
    assert sum(v is not None for d in reply.entities[0][0].days for v in d) == 24 + len(days)
    cuts = np.quantile(times, [0.5, 0.99])
    return {"read_24_hours_p50_ms": float(cuts[0]), "read_24_hours_p99_ms": float(cuts[1])}


def main() -> None:
    gc.freeze()  # as the workers that apply batches do: what is imported is not searched again
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            with (
                open_store(server.url) as store,
                redis.Redis.from_url(server.operator_url) as client,
            ):

                def server_cpu() -> float:
                    info = client.info("cpu")
                    return float(info["used_cpu_user"] + info["used_cpu_sys"])

                store.run(Initialise())
                unit = StoreUnit()
                store.run(Deploy(StoreDeployment("bench", (unit,)), 0))
                hour = store.run(ReadTime()) // HOUR_US
                figures = {
                    **applies(store, unit, hour, server_cpu),
                    "scripts_alone_per_s": max(
                        scripts(store, unit, hour, f"s{i}") for i in range(5)
                    ),
                    **reads(store, unit, hour),
                    "machine_load": os.getloadavg()[0],
                }
        finally:
            server.stop()
    print(json.dumps(figures))
    for name, value in figures.items():
        print(f"{name:28} {value:12,.3f}")


if __name__ == "__main__":
    main()
