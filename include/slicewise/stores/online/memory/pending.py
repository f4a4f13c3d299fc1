"""A tail's events of an entity and place stand in fields of limited room, in offset order, without a hole.

Does what scripts/tail.lua and scripts/compare_and_set.lua do to the fields of a hash, for the store in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.codec import (
    TAIL_HEAD,
    TAIL_SIZE,
    Room,
    offset_of,
    pack_tail,
    pack_tail_head,
    unpack_tail,
    unpack_tail_head,
)
from slicewise.stores.online.keys import TAIL_COUNT, tail_field, tail_head
from slicewise.stores.online.steps import Passed

Fields = dict[bytes, bytes]


def last_of(fields: Fields, place: bytes) -> int:
    """Offset of the newest event; -1 without one."""
    head = fields.get(tail_head(place))
    return -1 if head is None else unpack_tail(fields[tail_field(place, unpack_tail_head(head)[1])])[0]


def append(fields: Fields, place: bytes, events: Sequence[bytes], room: Room) -> None:
    """Adds events as members, which follow those that stand."""
    head = fields.get(tail_head(place))
    oldest, newest = (0, -1) if head is None else unpack_tail_head(head)
    members = [] if head is None else unpack_tail(fields[tail_field(place, newest)])[1]
    for member in events:
        size = TAIL_HEAD + sum(TAIL_SIZE + len(each) for each in members)
        if newest < 0 or len(members) >= room.events or size + TAIL_SIZE + len(member) > room.bytes:
            newest, members = newest + 1, []
        members.append(member)
        fields[tail_field(place, newest)] = pack_tail(members)
    fields[tail_head(place)] = pack_tail_head(oldest, newest)
    fields[TAIL_COUNT] = b"%d" % (int(fields.get(TAIL_COUNT, b"0")) + len(events))


def take(fields: Fields, passed: Passed) -> None:
    """Removes events up to an offset; nothing where a field is damaged, which raises CodecError."""
    head = fields.get(tail_head(passed.place))
    if head is None:
        return
    oldest, newest = unpack_tail_head(head)
    left = int(fields.get(TAIL_COUNT, b"0"))
    gone: list[bytes] = []
    kept: Fields = {}
    for number in range(oldest, newest + 1):
        name = tail_field(passed.place, number)
        _, members = unpack_tail(fields.get(name, b""))
        beyond = [each for each in members if offset_of(each) > passed.offset]
        left -= len(members) - len(beyond)
        if beyond:
            kept = {name: pack_tail(beyond), tail_head(passed.place): pack_tail_head(number, newest)}
            break
        gone.append(name)
    for name in (*gone, *(() if kept else (tail_head(passed.place),)), *((TAIL_COUNT,) if left <= 0 else ())):
        fields.pop(name, None)
    fields.update(kept)
    if left > 0:
        fields[TAIL_COUNT] = b"%d" % left
