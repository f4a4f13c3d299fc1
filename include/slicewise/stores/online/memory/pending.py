"""Pending events of an entity and partition stand in fields of limited room, in offset order,
without a gap.

Does what scripts/pending.lua and scripts/compare_and_set.lua do to the fields of a hash, for the
store in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.codec import (
    PENDING_HEAD,
    PENDING_SIZE,
    Room,
    offset_of,
    pack_pending,
    pack_pending_numbers,
    unpack_pending,
    unpack_pending_numbers,
)
from slicewise.stores.online.keys import PENDING_COUNT, pending_field, pending_numbers
from slicewise.stores.online.steps import Passed

Fields = dict[bytes, bytes]


def last_of(fields: Fields, topic_partition: bytes) -> int:
    """Offset of the newest event; -1 without one."""
    head = fields.get(pending_numbers(topic_partition))
    return (
        -1
        if head is None
        else unpack_pending(
            fields[pending_field(topic_partition, unpack_pending_numbers(head)[1])]
        )[0]
    )


def append(fields: Fields, topic_partition: bytes, events: Sequence[bytes], room: Room) -> None:
    """Adds events as members, which follow those that stand."""
    head = fields.get(pending_numbers(topic_partition))
    oldest, newest = (0, -1) if head is None else unpack_pending_numbers(head)
    members = (
        [] if head is None else unpack_pending(fields[pending_field(topic_partition, newest)])[1]
    )
    for member in events:
        size = PENDING_HEAD + sum(PENDING_SIZE + len(payload) for payload in members)
        if (
            newest < 0
            or len(members) >= room.events
            or size + PENDING_SIZE + len(member) > room.bytes
        ):
            newest, members = newest + 1, []
        members.append(member)
        fields[pending_field(topic_partition, newest)] = pack_pending(members)
    fields[pending_numbers(topic_partition)] = pack_pending_numbers(oldest, newest)
    fields[PENDING_COUNT] = b"%d" % (int(fields.get(PENDING_COUNT, b"0")) + len(events))


def take(fields: Fields, passed: Passed) -> None:
    """Removes events up to an offset; nothing where a field is damaged, which raises CodecError."""
    head = fields.get(pending_numbers(passed.topic_partition))
    if head is None:
        return
    oldest, newest = unpack_pending_numbers(head)
    left = int(fields.get(PENDING_COUNT, b"0"))
    gone: list[bytes] = []
    kept: Fields = {}
    for number in range(oldest, newest + 1):
        name = pending_field(passed.topic_partition, number)
        _, members = unpack_pending(fields.get(name, b""))
        beyond = [member for member in members if offset_of(member) > passed.offset]
        left -= len(members) - len(beyond)
        if beyond:
            kept = {
                name: pack_pending(beyond),
                pending_numbers(passed.topic_partition): pack_pending_numbers(number, newest),
            }
            break
        gone.append(name)
    for name in (
        *gone,
        *(() if kept else (pending_numbers(passed.topic_partition),)),
        *((PENDING_COUNT,) if left <= 0 else ()),
    ):
        fields.pop(name, None)
    fields.update(kept)
    if left > 0:
        fields[PENDING_COUNT] = b"%d" % left
