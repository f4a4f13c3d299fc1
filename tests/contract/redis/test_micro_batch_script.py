"""A micro-batch's changes in few words do what the same changes do in many: on one server, from the
same state, with the same replies."""

from __future__ import annotations

import random
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.errors import StoreUnavailable
from slicewise.stores.online import keys
from slicewise.stores.online.redis.commands import encode
from slicewise.stores.online.steps import (
    ABSENT,
    Change,
    Command,
    Fields,
    KeyChange,
    MicroBatchChange,
    Passed,
    Text,
    begins,
    exact,
)
from slicewise.stores.online.store import Store
from tests.contract.conftest import Backend

PARTITION = b"5" * 32 + b":0"
APPLIED, OLDEST = b"l:" + PARTITION, b"o:" + PARTITION
NOW_S = int(time.time())
EXPIRIES = (0, NOW_S - 100, NOW_S + 10_000, NOW_S + 20_000)


def key(side: str, entity: int, day: int | None = None) -> bytes:
    return b"sw:{%s%d}:%s" % (side.encode(), entity, b"hot" if day is None else b"day:%d" % day)


def pending_field(offsets: list[int]) -> bytes:
    """A pending field of events with these offsets."""
    members = [bytes(28) + struct.pack(">Q", offset) + b"event" for offset in offsets]
    sizes = b"".join(struct.pack("<I", len(member)) for member in members)
    return struct.pack("<QI", offsets[-1], len(offsets)) + sizes + b"".join(members)


def state(rng: random.Random) -> tuple[dict[bytes, bytes], list[bytes | None]]:
    """Fields of a hot hash, and the hours of its days."""
    fields = {b"r:%d" % n: rng.randbytes(16) + b"row" for n in range(5) if rng.random() < 0.5}
    if rng.random() < 0.7:
        fields[APPLIED] = b"%d" % rng.randrange(5)
    if rng.random() < 0.4:
        fields[keys.PENDING_COUNT] = b"4"
        fields[OLDEST] = rng.choice((b"0:1", b"0:1", b"torn"))
        fields[b"q:" + PARTITION + b":0"] = pending_field([5, 6])
        fields[b"q:" + PARTITION + b":1"] = pending_field([8, 9])
    return fields, [
        rng.choice((None, b"hours", b"other")) for _ in range(rng.choice((0, 1, 1, 2, 5)))
    ]


def keys_of(
    side: str,
    entity: int,
    rng: random.Random,
    fields: dict[bytes, bytes],
    days: list[bytes | None],
) -> tuple[KeyChange, ...]:
    """Checks of what a micro-batch read, which may stand no more, and what it writes."""
    read = dict(fields)
    for name in list(read):
        if rng.random() < 0.05:
            read.pop(name)
        elif rng.random() < 0.05:
            read[name] = rng.randbytes(17)
    names = rng.sample([b"r:%d" % n for n in range(5)], rng.randrange(4))
    sets = [(name, rng.randbytes(rng.choice((20, 400))), rng.choice(EXPIRIES)) for name in names]
    checks = [(APPLIED, exact(read.get(APPLIED)))]
    checks += [(name, ABSENT if name not in read else begins(read[name][:16])) for name in names]
    offset = rng.randrange(12)
    passed = Passed(PARTITION, offset, rng.choice((0, 4, 60))) if rng.random() < 0.5 else None
    if passed is None:
        checks.append((keys.PENDING_COUNT, ABSENT))
    sets.append((APPLIED, b"%d" % offset, rng.choice(EXPIRIES)))
    hours = [raw if rng.random() < 0.95 else b"another" for raw in days]
    return (
        KeyChange(key(side, entity), checks, sets, (), passed),
        *(
            KeyChange(key(side, entity, day), ((keys.HOURS, exact(raw)),))
            for day, raw in enumerate(hours)
        ),
    )


def many_partials(hot: KeyChange, rng: random.Random) -> KeyChange:
    """The change of an entity that touches as many slices as one may."""
    sets = [(b"x:%d" % n, rng.randbytes(20), rng.choice(EXPIRIES)) for n in range(512)]
    checks = [hot.checks[0], *((name, ABSENT) for name, _, _ in sets)]
    if hot.passed is None:
        checks.append((keys.PENDING_COUNT, ABSENT))
    return KeyChange(hot.key, checks, [*sets, hot.sets[-1]], (), hot.passed)


def run(store: Store, side: str, kind: type[Change], seed: int, *, alone: bool) -> list[object]:
    """Replies, and what then stands. alone: each change by itself, those that find a torn field
    too; else all at once, with other commands between."""
    rng = random.Random(seed)
    commands: list[Command] = []
    plain = []
    entities = range(rng.randint(1, 120))
    for entity in entities:
        fields, days = state(rng)
        if not alone and OLDEST in fields:
            fields[OLDEST] = b"0:1"
        if fields:
            flat = [word for item in fields.items() for word in item]
            plain.append((b"HSET", key(side, entity), *flat))
            if rng.random() < 0.5:
                second = b"%d" % rng.choice(EXPIRIES[2:])
                plain.append((b"EXPIREAT", key(side, entity), second))
        plain += [
            (b"HSET", key(side, entity, day), keys.HOURS, raw)
            for day, raw in enumerate(days)
            if raw is not None
        ]
        hot, *of_days = keys_of(side, entity, rng, fields, days)
        if rng.random() < 0.02:
            hot = many_partials(hot, rng)
        commands.append((Change if rng.random() < 0.1 else kind)((hot, *of_days)))
        if not alone and rng.random() < 0.1:
            commands.append(rng.choice((Fields(hot.key, [APPLIED]), Text(b"nothing"))))
    store.node.plain(plain)  # type: ignore[attr-defined]
    replies: list[object] = []
    for some in [[one] for one in commands] if alone else [commands]:
        try:
            replies += store.node.run(some)
        except StoreUnavailable as error:
            replies.append(str(error).replace(side, ""))
    assert len(replies) == len(commands)
    stands = store.node.plain(  # type: ignore[attr-defined]
        [(b"HGETALL", key(side, entity)) for entity in entities]
        + [(b"EXPIRETIME", key(side, entity)) for entity in entities]
    )
    paired = [
        sorted(zip(one[::2], one[1::2], strict=True)) if isinstance(one, list) else one
        for one in stands
    ]
    return [replies, paired]


@pytest.mark.parametrize("alone", [True, False])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_few_words_do_what_many_do(contract_store: Backend, alone: bool, seed: int) -> None:
    contract_store.empty()
    with contract_store.connect() as store:
        short = run(store, "short", MicroBatchChange, seed, alone=alone)
        assert short == run(store, "long", Change, seed, alone=alone)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_entities_of_one_call_are_each_for_themselves(contract_store: Backend, seed: int) -> None:
    rng = random.Random(seed)
    changes = []
    for entity in range(rng.randint(1, 200)):
        sets = [(b"r:1", rng.randbytes(rng.choice((20, 9_000))), 0), (APPLIED, b"7", 0)]
        checks = [(APPLIED, ABSENT), (b"r:1", ABSENT), (keys.PENDING_COUNT, ABSENT)]
        changes.append(MicroBatchChange((KeyChange(key("", entity), checks, sets),)))
    already = {entity for entity in range(len(changes)) if rng.random() < 0.3}
    packed, replies = encode(changes)
    assert len(packed) == replies <= max(1, len(changes))
    contract_store.empty()
    with contract_store.connect() as store:
        store.node.plain([(b"HSET", key("", entity), APPLIED, b"3") for entity in already])  # type: ignore[attr-defined]
        expected = [-1 if entity in already else 0 for entity in range(len(changes))]
        assert store.node.run(changes) == expected
        written = store.node.plain(  # type: ignore[attr-defined]
            [(b"HGET", key("", entity), b"r:1") for entity in range(len(changes))]
        )
    assert [raw is None for raw in written] == [entity in already for entity in range(len(changes))]
