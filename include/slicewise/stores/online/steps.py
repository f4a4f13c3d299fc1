"""A store operation is a generator: it yields what to read or change, and is sent the replies.

It does no I/O, so that one code runs against Redis, against memory, and in the simulator, which
stops it between any two commands. What is yielded together is pipelined, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from slicewise.reading.exchange import ListShape, ReadShape
from slicewise.stores.online import keys

if TYPE_CHECKING:
    from slicewise.codec import Room
    from slicewise.features.declare.event_list import EventList

T = TypeVar("T")


class Time(NamedTuple):
    """-> microseconds UTC by the store's clock."""


class Fields(NamedTuple):
    """-> value or None per field of a hash."""

    key: bytes
    fields: Sequence[bytes]


class Whole(NamedTuple):
    """-> [field, value, field, value, ...] of a hash."""

    key: bytes


class Text(NamedTuple):
    """-> the text, or None."""

    key: bytes


class PutText(NamedTuple):
    """-> None."""

    key: bytes
    value: bytes


class PutLeaderboard(NamedTuple):
    """-> 1, or 0 where the leaderboard that stands has this order or a later one, and nothing was
    written."""

    key: bytes
    order: bytes
    """Digits of one width."""
    value: bytes
    expiry_ms: int
    """Milliseconds from now."""


class Members(NamedTuple):
    """-> members of a sorted set with scores from first to last, ascending; newest: the last so
    many of them, latest first (0: all)."""

    key: bytes
    first: int
    last: int
    newest: int = 0


class Together(NamedTuple):
    """-> the replies of commands that are run as one transaction, under one tag."""

    commands: Sequence[Fields | Whole | Members]


class Tagged(NamedTuple):
    """Reads of a shape under this tag -> as `Together` of its commands."""

    shape: ReadShape
    tag: bytes

    def commands(self) -> Sequence[Fields | Whole | Members]:
        """The commands that read under this tag, unit by unit."""
        store_id, tag = self.shape.store_id, self.tag
        commands: list[Fields | Whole | Members] = []
        for shape in self.shape.units:
            if isinstance(shape, ListShape):
                commands.append(Whole(keys.list_key(store_id, tag, shape.unit)))
                key = keys.members_key(store_id, tag, shape.unit)
                commands += [Members(key, *wanted) for wanted in shape.ranges]
                continue
            unit, days = shape
            commands.append(Whole(keys.hot_key(store_id, tag, unit)))
            commands += [
                Fields(keys.day_key(store_id, tag, unit, day), names) for day, names in days
            ]
        return commands


class Passed(NamedTuple):
    """Up to where a micro-batch has brought the events of a partition."""

    topic_partition: bytes
    """`keys.topic_partition_text`."""
    offset: int
    pending: int = 0
    """Pending events of the entity when it was read: how much there is to look through."""


class KeyChange(NamedTuple):
    """Checks that must still hold in one hash, and what is then written to it."""

    key: bytes
    checks: Sequence[tuple[bytes, bytes]]
    """At least one (field, ABSENT | exact(value) | begins(prefix))."""
    sets: Sequence[tuple[bytes, bytes, int]] = ()
    """(field, value, expiry in seconds UTC): left out if that second has passed; the key expires
    with its latest. Expiry 0: always written, for ever."""
    deletes: Sequence[bytes] = ()
    passed: Passed | None = None
    """The pending events of this partition up to this offset go, whatever became of the sets; their
    count follows."""


class Change(NamedTuple):
    """-> MISSED where a check does not hold and nothing was written; else how many sets were left
    out because they had expired. All or nothing, over all keys (of one tag)."""

    keys: Sequence[KeyChange]


class MicroBatchChange(Change):
    """A `Change` of a shape that a store may send in fewer words. The first key is an
    entity's hot hash: its first check and its last set are of the applied offset, then it has a
    check for each of its other sets in their order. Pending events are `passed` up to the offset
    that is set; where nothing is passed, the last check is that there are none. Each other key is a
    day's hash with one check, of its hours."""

    __slots__ = ()


class ListChange(NamedTuple):
    """Change of an event list's fields, events, trimming, low-water mark and expiries: all or
    nothing. -> MISSED where a check does not hold, EXPIRED where no list stands and all of it is
    too old, and nothing was written; else how many events the list's capacity cut."""

    key: bytes
    """The hash."""
    list_key: bytes
    """The sorted set."""
    checks: Sequence[tuple[bytes, bytes]]
    """At least one (field, ABSENT | exact(value)) of the hash."""
    sets: Sequence[tuple[bytes, bytes]]
    adds: Sequence[tuple[int, bytes]]
    """(score, member)."""
    keeps: EventList
    expiry: int
    """Second of expiry of what is added; 0: never."""


class PendingChange(NamedTuple):
    """-> [written or standing, already applied, expired, skipped] of the events of one entity and
    partition."""

    key: bytes
    applied_field: bytes
    skip: bytes
    topic_partition: bytes
    """`keys.topic_partition_text`."""
    bound: int
    """Events of the entity, of all partitions."""
    room: Room
    """Room of one field."""
    events: Sequence[tuple[int, bytes, int]]
    """(offset, member, expiry in seconds UTC or 0), in offset order."""


class PendingListChange(NamedTuple):
    """-> [written, already applied, trimmed or too old, cut] of the events of one entity and
    partition."""

    key: bytes
    """The hash."""
    list_key: bytes
    applied_field: bytes
    keeps: EventList
    expiry: int
    """Second of expiry of what is added; 0: never."""
    events: Sequence[tuple[int, int, bytes]]
    """(offset, score, member), in offset order."""


Written = Change | ListChange | PendingChange | PendingListChange
"""Commands that change what an entity has."""
Command = (
    Time | Fields | Whole | Members | Text | PutText | PutLeaderboard | Together | Tagged | Written
)
Steps = Generator[Sequence[Command], list[Any], T]

TIME = Time()
WHOLE_METADATA = Whole(keys.METADATA)
STORE_VERSION = Fields(keys.METADATA, (b"generation", b"epoch"))
"""Question of every read besides its data."""
MISSED = -1
EXPIRED = -2
ABSENT = b""
ATTEMPTS = 64
"""A check fails because another writer made progress; more often in a row is no race."""


def exact(value: bytes | None) -> bytes:
    """The check that a field has this value, or is absent (None)."""
    return ABSENT if value is None else b"=" + value


def begins(prefix: bytes) -> bytes:
    """The check that a field's value begins so."""
    return b"^" + prefix


def passes(want: bytes, actual: bytes | None) -> bool:
    """Decides one check, as the script does."""
    if want == ABSENT or actual is None:
        return want == ABSENT and actual is None
    value = want[1:]
    return actual == value if want[:1] == b"=" else actual.startswith(value)


def drive(steps: Steps[T], run: Callable[[Sequence[Command]], list[Any]]) -> T:
    """Runs an operation to its end against `run`, which answers commands in order."""
    replies: list[Any] = []
    try:
        commands = next(steps)
        while True:
            replies = run(commands)
            commands = steps.send(replies)
    except StopIteration as done:
        value: T = done.value
        return value
