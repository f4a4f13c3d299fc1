"""Beyond an entity's guard stand all its events of a place up to the newest written, or a skip mark says where not.

What the tail's writer in the JVM does, as an operation: for the contract suite, the simulator, and the test that both
write the same. One call per entity, its events in offset order, decided by the script that runs it: docs/adr/0066.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from itertools import pairwise

import numpy as np

from slicewise import codec
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Int64, require_order
from slicewise.stores.online.port import PendingBatch, PendingOutcome, Term
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Command, PendingChange, PendingListChange, Steps

MAX_EVENTS = 512
"""Of one call: bounds the arguments and the time of a script."""


def tail(
    generation: int, term: Term, batch: PendingBatch, bound: int, room: codec.Room = codec.ROOM
) -> Steps[PendingOutcome]:
    """Writes a batch, whose events follow those that the same tail wrote before. Written again, or by another tail,
    nothing changes. bound: events of an entity's tail, beyond which the rest is skipped (of event lists none); room: of
    a tail field.

    Requires rows in offset order and offsets below 2^53.
    """
    require_order(batch.offset)
    below = decisions.below_start(batch.offset, term.start.get(batch.place))
    calls = list(_calls(batch, np.flatnonzero(~below)))
    replies = yield [
        _fields(generation, term, batch, rows, bound, room)
        if batch.unit.event_list is None
        else _members(generation, term, batch, rows)
        for rows in calls
    ]
    total = PendingOutcome(rows=len(batch.offset), below=int(below.sum()))
    for reply in replies:
        written, known, expired, rest = reply
        skipped, cut = (rest, 0) if batch.unit.event_list is None else (0, rest)
        one = PendingOutcome(0, written, known, 0, expired, skipped, cut)
        total = PendingOutcome(*(x + y for x, y in zip(astuple(total), astuple(one), strict=True)))
    return total


def _calls(batch: PendingBatch, rows: Int64) -> Iterator[Int64]:
    """Rows of one entity each, in offset order, as many as a call takes."""
    order = rows[np.argsort(batch.entity[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(batch.entity[order], prepend=-1)).tolist()
    for begin, end in pairwise([*starts, len(order)]):
        for at in range(begin, end, MAX_EVENTS):
            yield order[at : min(at + MAX_EVENTS, end)]


def _fields(generation: int, term: Term, batch: PendingBatch, rows: Int64, bound: int, room: codec.Room) -> Command:
    unit, place = batch.unit, batch.place
    offsets = batch.offset[rows].tolist()
    numbers = (batch.time[rows] // unit.slice_us).tolist()
    expiries = [
        0 if unit.lifetime else decisions.expiry_s((number + 1) * unit.slice_us, unit.retention_us)
        for number in numbers
    ]
    members = [batch.members[row] for row in rows.tolist()]
    return PendingChange(
        keys.hot_key(generation, _tag(batch, rows), term.name),
        keys.guard_field(place),
        keys.skip_field(place),
        keys.place_text(place),
        bound,
        room,
        list(zip(offsets, members, expiries, strict=True)),
    )


def _members(generation: int, term: Term, batch: PendingBatch, rows: Int64) -> Command:
    keeps = batch.unit.event_list
    assert keeps is not None
    times = batch.time[rows]
    members = [batch.members[row] for row in rows.tolist()]
    return PendingListChange(
        keys.list_key(generation, _tag(batch, rows), term.name),
        keys.members_key(generation, _tag(batch, rows), term.name),
        keys.guard_field(batch.place),
        keeps,
        decisions.list_expiry_s(keeps, int(times.max())),
        list(zip(batch.offset[rows].tolist(), map(codec.score_of, times.tolist()), members, strict=True)),
    )


def _tag(batch: PendingBatch, rows: Int64) -> bytes:
    tags: Sequence[bytes] = batch.tags
    return tags[int(batch.entity[rows[0]])]
