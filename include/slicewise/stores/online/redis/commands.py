"""Steps' commands as Redis commands, and their replies back; no command outside Redis 7.0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicewise.errors import CodecError, StoreUnavailable
from slicewise.features.declare.event_list import EventList
from slicewise.reading.exchange import ReadShape
from slicewise.stores.online.keys import METADATA
from slicewise.stores.online.redis.scripts import (
    COMPARE_AND_SET,
    EVENT_LIST,
    LEADERBOARD,
    MICRO_BATCH,
    PENDING,
    PENDING_LIST,
)
from slicewise.stores.online.redis.wire import ReplyError, pack
from slicewise.stores.online.steps import (
    STORE_VERSION,
    TIME,
    WHOLE_METADATA,
    Change,
    Command,
    Fields,
    ListChange,
    Members,
    MicroBatchChange,
    PendingChange,
    PendingListChange,
    PutLeaderboard,
    PutText,
    Tagged,
    Text,
    Time,
    Together,
    Whole,
)

MAX_VALUE = 64 << 20
"""Bytes of one value; Redis itself takes 512 MiB, but a script copies what it checks."""
CALL_WORDS, CALL_BYTES, CALL_PENDING = 400, 256 << 10, 100
"""Words, bytes of values and pending events to look through that fill a call for several entities
of a micro-batch: some thirty of them, for which other clients wait less than a millisecond."""

_TIME = pack((b"TIME",))
_MULTI = pack((b"MULTI",))
_EXEC = pack((b"EXEC",))
_FIXED = {id(TIME): pack((b"TIME",)), id(WHOLE_METADATA): pack((b"HGETALL", METADATA))}
_FIXED[id(STORE_VERSION)] = pack((b"HMGET", STORE_VERSION.key, *STORE_VERSION.fields))
"""Question of every read, packed; by identity, since these are values that live for ever."""
TAG_LENGTHS = 256
"""Lengths of tags for which a shape's commands are kept."""


def encode(commands: Sequence[Command]) -> tuple[list[bytes], int]:
    """Packed commands, and how many replies they bring."""
    packed: list[bytes] = []
    replies = len(commands)
    call = _MicroBatchCall()
    for command in commands:
        if type(command) is MicroBatchChange:
            if not call.takes(command):
                packed.append(call.packed())
                call = _MicroBatchCall()
            replies -= bool(call.keys)
            call.add(command)
            continue
        if call.keys:
            packed.append(call.packed())
            call = _MicroBatchCall()
        fixed = _FIXED.get(id(command))
        if fixed is not None:
            packed.append(fixed)
        elif isinstance(command, Tagged):
            packed.append(_tagged(command.shape, command.tag))
            replies += count(command.shape) + 1
        elif isinstance(command, Fields):
            packed.append(pack((b"HMGET", command.key, *command.fields)))
        elif isinstance(command, Change):
            packed.append(_change(command))
        elif isinstance(command, ListChange):
            packed.append(_list_change(command))
        elif isinstance(command, PendingChange):
            packed.append(_pending(command))
        elif isinstance(command, PendingListChange):
            packed.append(_pending_list(command))
        elif isinstance(command, PutLeaderboard):
            parts = (command.order, command.value, b"%d" % command.expiry_ms)
            packed.append(pack((b"EVALSHA", LEADERBOARD.digest, b"1", command.key, *parts)))
        elif isinstance(command, Members):
            packed.append(_members(command))
        elif isinstance(command, Whole):
            packed.append(pack((b"HGETALL", command.key)))
        elif isinstance(command, Together):
            packed.append(_MULTI)
            inside, n = encode(command.commands)
            packed += inside
            packed.append(_EXEC)
            replies += n + 1
        elif isinstance(command, Time):
            packed.append(_TIME)
        elif isinstance(command, Text):
            packed.append(pack((b"GET", command.key)))
        else:
            packed.append(pack((b"SET", command.key, command.value)))
    if call.keys:
        packed.append(call.packed())
    return packed, replies


def count(shape: ReadShape) -> int:
    """Commands that a shape makes."""
    return shape.count


def _tagged(shape: ReadShape, tag: bytes) -> bytes:
    """The transaction of a shape's commands, with its length of tag packed only once."""
    size = len(tag)
    parts = shape.packed.get(size)
    if parts is None:
        # NUL stands in no key: names and values of a tag are percent-encoded
        mark = b"\0" * size
        inside, _ = encode(Tagged(shape, mark).commands())
        whole = b"".join([_MULTI, *inside, _EXEC])
        parts = whole.split(mark) if size else [whole]
        if len(shape.packed) < TAG_LENGTHS:
            shape.packed[size] = parts
    return tag.join(parts)


def _change(change: Change) -> bytes:
    words: list[bytes] = [b"EVALSHA", COMPARE_AND_SET.digest, b"%d" % len(change.keys)]
    words += [key.key for key in change.keys]
    for key in change.keys:
        words.append(b"%d" % len(key.checks))
        for check in key.checks:
            words += check
    for key in change.keys:
        words.append(b"%d" % len(key.sets))
        for field, value, expiry in key.sets:
            _check_size(field, value)
            words += (field, value, b"%d" % expiry)
        words.append(b"%d" % len(key.deletes))
        words += key.deletes
        words += (
            (b"", b"0")
            if key.passed is None
            else (key.passed.topic_partition, b"%d" % key.passed.offset)
        )
    return pack(tuple(words))


def _check_size(field: bytes, value: bytes) -> None:
    if len(value) > MAX_VALUE:
        raise CodecError(
            f"a value of {len(value)} bytes",
            where=field.decode(),
            expected=f"at most {MAX_VALUE}",
            next_step="lower the aggregate's capacity or threshold",
        )


class _MicroBatchCall:
    """One script call for entities of a micro-batch: the words that a change of each would repeat
    stand in it once."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self._words: list[bytes] = []
        self._bytes = 0
        self._pending = 0
        self._of: tuple[bytes, bytes] | None = None
        """Field of the applied offset, and the partition whose pending events go."""

    def takes(self, change: MicroBatchChange) -> bool:
        """Tells whether the change goes into this call: it begins one, or repeats its words."""
        full = (
            len(self._words) >= CALL_WORDS
            or self._bytes >= CALL_BYTES
            or self._pending >= CALL_PENDING
        )
        return self._of is None or (not full and self._of == _repeated(change))

    def add(self, change: MicroBatchChange) -> None:
        hot, days = change.keys[0], change.keys[1:]
        *sets, (_, applied, expiry) = hot.sets
        n = len(sets)
        if self._of is None:
            self._of = _repeated(change)
        if hot.passed is not None:
            self._pending += hot.passed.pending
        self.keys.append(hot.key)
        self.keys += [day.key for day in days]
        words = self._words
        words += (b"%d" % len(days), b"%d" % n, hot.checks[0][1], applied, b"%d" % expiry)
        words += [day.checks[0][1] for day in days]
        words += [field for field, _, _ in sets]
        words += [want for _, want in hot.checks[1 : n + 1]]
        for field, value, _ in sets:
            _check_size(field, value)
            self._bytes += len(value)
            words.append(value)
        words += [b"%d" % second for _, _, second in sets]

    def packed(self) -> bytes:
        assert self._of is not None
        count = b"%d" % len(self.keys)
        return pack((b"EVALSHA", MICRO_BATCH.digest, count, *self.keys, *self._of, *self._words))


def _repeated(change: MicroBatchChange) -> tuple[bytes, bytes]:
    hot = change.keys[0]
    return hot.checks[0][0], b"" if hot.passed is None else hot.passed.topic_partition


def _list_change(change: ListChange) -> bytes:
    words: list[bytes] = [
        b"EVALSHA",
        EVENT_LIST.digest,
        b"2",
        change.key,
        change.list_key,
        b"%d" % len(change.checks),
    ]
    for check in change.checks:
        words += check
    words.append(b"%d" % len(change.sets))
    for field, value in change.sets:
        words += (field, value)
    words += _keeps(change.keeps, change.expiry)
    for score, member in change.adds:
        words += (b"%d" % score, member)
    return pack(tuple(words))


def _keeps(keeps: EventList, expiry: int) -> list[bytes]:
    return [b"%d" % n for n in (keeps.range_us, keeps.rows, keeps.late_us, keeps.most, expiry)]


def _pending(change: PendingChange) -> bytes:
    words = [
        b"EVALSHA",
        PENDING.digest,
        b"1",
        change.key,
        change.applied_field,
        change.skip,
        change.topic_partition,
    ]
    words += [b"%d" % n for n in (change.bound, *change.room)]
    for offset, member, expiry in change.events:
        words += (b"%d" % offset, member, b"%d" % expiry)
    return pack(tuple(words))


def _pending_list(change: PendingListChange) -> bytes:
    words = [
        b"EVALSHA",
        PENDING_LIST.digest,
        b"2",
        change.key,
        change.list_key,
        change.applied_field,
    ]
    words += _keeps(change.keeps, change.expiry)
    for offset, score, member in change.events:
        words += (b"%d" % offset, b"%d" % score, member)
    return pack(tuple(words))


def _members(wanted: Members) -> bytes:
    first, last = b"%d" % wanted.first, b"%d" % wanted.last
    if wanted.newest:
        newest = b"%d" % wanted.newest
        return pack(
            (b"ZRANGE", wanted.key, last, first, b"BYSCORE", b"REV", b"LIMIT", b"0", newest)
        )
    return pack((b"ZRANGE", wanted.key, first, last, b"BYSCORE"))


def decode(commands: Sequence[Command], replies: Sequence[Any]) -> list[Any]:
    """One answer per command. A reply that is an error is raised: nothing of it is guessed."""
    out: list[Any] = []
    at = answered = 0
    for command in commands:
        if answered:  # by the call of the change before
            answered -= 1
            continue
        reply = replies[at]
        at += 1
        if isinstance(command, Together | Tagged):
            at += len(command.commands) if isinstance(command, Together) else count(command.shape)
            reply = replies[at]
            at += 1
            if type(reply) is list and ReplyError in map(type, reply):
                for inner in reply:
                    _check(inner)
        _check(reply)
        if type(command) is MicroBatchChange:
            out += reply
            answered = len(reply) - 1
            continue
        if isinstance(command, Time):
            reply = int(reply[0]) * 1_000_000 + int(reply[1])
        elif isinstance(command, PutText):
            reply = None
        out.append(reply)
    return out


def _check(reply: Any) -> None:
    if isinstance(reply, ReplyError):
        raise StoreUnavailable(
            f"the store refuses a command: {reply}",
            next_step="see the store's log; open a new connection and start again from its metadata",
        )
