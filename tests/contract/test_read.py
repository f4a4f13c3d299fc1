"""A read by shape and tag is the read of the same keys."""

from __future__ import annotations

import random

from slicewise.reading.exchange import ReadShape, UnitShape
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.reading import EntityRead, Read, TagRead, UnitRead
from slicewise.windows.durations import DAY_US, HOUR_US
from tests.contract.conftest import Bench
from tests.support.stores.stored import Event, micro_batch, tag

SEED = 20_260_102


def test_a_read_by_shape_gives_what_a_read_by_keys_gives(bench: Bench) -> None:
    rng = random.Random(SEED)
    events = [
        Event(rng.randrange(12), bench.hour_us + rng.randrange(HOUR_US), 0, offset)
        for offset in range(60)
    ]
    bench.store.run(ApplyBatch(micro_batch(bench.unit, events)))
    unit, store_id, day = (
        bench.unit.storage_fingerprint,
        bench.store.store_id,
        bench.hour_us // DAY_US,
    )
    names = (b"c", b"d", b"h:%d" % (bench.hour_us // HOUR_US))
    shape = ReadShape(
        store_id, (UnitShape(unit, ((day, names), (day + 1, names))), UnitShape(unit, ()))
    )
    # Tags of several lengths, one that nothing is stored of, and one of no length at all.
    tags = [*(tag(entity) for entity in range(12)), b"nobody:string:x", b""]
    by_keys = []
    for entity_tag in tags:
        hot = keys.hot_key(store_id, entity_tag, unit)
        days = tuple((keys.day_key(store_id, entity_tag, unit, d), names) for d in (day, day + 1))
        by_keys.append(EntityRead((UnitRead(hot, days), UnitRead(hot))))
    want = bench.store.run(Read(by_keys))
    for _ in range(2):  # the second time from what was kept of the first
        result = bench.store.run(Read([TagRead(shape, entity_tag) for entity_tag in tags]))
        assert result.entities == want.entities
        assert {n: node_reply.metadata for n, node_reply in result.node_replies.items()} == {
            n: node_reply.metadata for n, node_reply in want.node_replies.items()
        }
    assert any(units[0].hot for units in result.entities)
    mixed = bench.store.run(Read([by_keys[0], TagRead(shape, tags[1])]))
    assert mixed.entities == want.entities[:2]
