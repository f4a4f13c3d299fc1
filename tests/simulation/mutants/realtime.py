"""Mutants without a rule of the real-time lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slicewise import codec
from slicewise.offsets.vector import TopicPartition
from slicewise.reading import pending as reading_pending
from slicewise.reading import rows as merge_rows
from slicewise.stores.online import keys
from slicewise.stores.online.memory import pending as memory_pending
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Change, Command, KeyChange, Passed, PendingChange, Whole
from tests.simulation.mutants.rules import Mutant, Patches, flag, patched
from tests.simulation.worlds import realtime
from tests.simulation.worlds.realtime import RealtimeWorld, pending_in
from tests.simulation.worlds.world import archive_offsets
from tests.support.stores.stored import NO_COLUMNS, Event, rows_of

realtime_counts, pending_range, take = (
    decisions.realtime_counts,
    reading_pending.pending_range,
    memory_pending.take,
)


def in_any_server_run(realtime: Any, server_run: Any, committed: Any) -> bool:  # noqa: ARG001
    return realtime is not None and realtime_counts(realtime, realtime.server_run, committed)


def from_anywhere(realtime: Any, server_run: Any, committed: Any) -> bool:  # noqa: ARG001
    return realtime is not None and realtime_counts(realtime, server_run, realtime.start)


def unskipped(fields: Any, topic_partition: TopicPartition) -> tuple[int, int]:
    return pending_range(
        {name: value for name, value in fields.items() if not name.startswith(b"x:")},
        topic_partition,
    )


def whole_or_nothing(fields: Any, topic_partition: TopicPartition) -> tuple[int, int]:
    """A skip hides all that is beyond the applied offset."""
    first, end = pending_range(fields, topic_partition)
    return (first, end) if end == reading_pending.NEVER else (0, 0)


def pending_range_is(what: Callable[[Any, TopicPartition], tuple[int, int]]) -> Patches:
    return [(reading_pending, "pending_range", what), (merge_rows, "pending_range", what)]


def in_pending(what: Callable[[PendingChange], Command]) -> Callable[[RealtimeWorld], None]:
    return instead(
        lambda _, command: what(command) if isinstance(command, PendingChange) else command
    )


def in_batches(what: Callable[[KeyChange], KeyChange]) -> Callable[[RealtimeWorld], None]:
    def change(_: RealtimeWorld, command: Command) -> Command:
        if not isinstance(command, Change) or not command.keys[0].key.endswith(b":hot"):
            return command
        return Change((what(command.keys[0]), *command.keys[1:]))

    return instead(change)


def instead(what: Callable[[RealtimeWorld, Command], Command]) -> Callable[[RealtimeWorld], None]:
    def apply(world: RealtimeWorld) -> None:
        world.server.instead = lambda command: what(world, command)

    return apply


def beyond(passed: Passed | None) -> Passed | None:
    return None if passed is None else passed._replace(offset=passed.offset + 1)


def unchecked(key: KeyChange) -> KeyChange:
    return key._replace(checks=[check for check in key.checks if check[0] != keys.PENDING_COUNT])


def deleting_publish(world: RealtimeWorld, command: Command) -> Command:
    """A publish that takes the events of its hour that it contains from the real-time lane."""
    if not isinstance(command, Change) or [b":day:" in key.key for key in command.keys] != [
        True,
        False,
    ]:
        return command
    day, hot = command.keys
    compacted = codec.unpack_hours(
        next((value for name, value, _ in day.sets if name == keys.HOURS), None)
    )
    flat = world.server.execute(Whole(hot.key))
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    pending, stay = pending_in(fields), []
    size = next(u.slice_us for u in world.units if u.storage_fingerprint.encode() in hot.key)
    for at, offset, time in pending:
        archive_version = compacted.get(decisions.hour_of(time // size, size), 0)
        if not archive_version or offset >= archive_offsets(world.archive[archive_version]).get(at):
            stay.append((at, offset, time))
    if len(stay) == len(pending):
        return command
    wanted = {name: value for name, value in fields.items() if name[:1] not in b"qom"}
    for at, offset, time in stay:
        (member,) = NO_COLUMNS.encode(rows_of([Event(0, time, at[1], offset)]))
        memory_pending.append(wanted, keys.topic_partition_text(at), [member], world.room)
    sets = [(name, value, 0) for name, value in wanted.items() if name[:1] in b"qom"]
    more = KeyChange(hot.key, hot.checks, sets, [name for name in fields if name not in wanted])
    return Change((day, hot, more))


def uncounted(fields: dict[bytes, bytes], passed: Passed) -> None:
    """Takes events in a micro-batch, and leaves them in the count."""
    count = fields.get(keys.PENDING_COUNT)
    take(fields, passed)
    if count is not None:
        fields[keys.PENDING_COUNT] = count


def whole_fields_only(fields: dict[bytes, bytes], passed: Passed) -> None:
    """A field that the micro-batch lane has passed in part stays as it is."""
    ends = [
        last for _, last in last_offsets(fields, passed.topic_partition) if last <= passed.offset
    ]
    if ends:
        take(fields, passed._replace(offset=max(ends)))


def whole_fields_all(fields: dict[bytes, bytes], passed: Passed) -> None:
    """A field that the micro-batch lane has passed in part goes."""
    ends = [
        last
        for first, last in last_offsets(fields, passed.topic_partition)
        if first <= passed.offset
    ]
    if ends:
        take(fields, passed._replace(offset=max(ends)))


def last_offsets(fields: dict[bytes, bytes], topic_partition: bytes) -> list[tuple[int, int]]:
    """First and last offset of each pending field of a partition."""
    results = []
    for name, value in fields.items():
        if name.startswith(keys.pending_field(topic_partition, 0)[:-1]):
            last, members = codec.unpack_pending(value)
            results.append((int(NO_COLUMNS.decode(members).offset[0]), last))
    return results


def below_no_start() -> Patches:
    return [
        (
            realtime,
            "floor",
            lambda start, offset_vector: 0 if offset_vector == start else offset_vector,
        ),
        (decisions, "below_start", lambda offsets, start: np.zeros(len(offsets), bool)),  # noqa: ARG005
    ]


def begun_anywhere() -> Patches:
    return [
        (decisions, "check_realtime", lambda *given: None),  # noqa: ARG005
        (decisions, "realtime_counts", from_anywhere),
    ]


MUTANTS: dict[str, Mutant] = {
    "offset-vector": Mutant(
        "real-time write",
        "a pending event that its hour has compacted does not count",
        patched(realtime, "floor", lambda start, offset_vector: start),  # noqa: ARG005
    ),
    "start-offsets": Mutant(
        "start offsets",
        "the real-time lane leaves out what is below the start offsets",
        below_no_start,
    ),
    "start": Mutant(
        "real-time write",
        "the real-time lane begins at or before the micro-batch lane's committed offsets",
        begun_anywhere,
        flag("late_start"),
    ),
    "server-run": Mutant(
        "a store that forgets",
        "pending fields count in the server run that its entry names",
        patched(decisions, "realtime_counts", in_any_server_run),
        flag("other_server_runs"),
    ),
    "skip": Mutant(
        "real-time write",
        "what is beyond a skip waits for the micro-batch lane",
        lambda: pending_range_is(unskipped),
    ),
    "skip-first": Mutant(
        "real-time write",
        "what is before a skip counts",
        lambda: pending_range_is(whole_or_nothing),
    ),
    "skip-joined": Mutant(
        "real-time write",
        "skips are joined until the applied offset has passed them",
        patched(decisions, "skipped", lambda mark, applied_offset, first, last: (first, last)),  # noqa: ARG005
    ),
    "last": Mutant(
        "real-time write",
        "the real-time lane writes only beyond the entity's applied offset",
        world=in_pending(lambda change: change._replace(applied_field=b"-")),
    ),
    "order": Mutant(
        "real-time write", "an entity's events are written in offset order", world=flag("backwards")
    ),
    "deletes": Mutant(
        "micro-batch",
        "a micro-batch takes from the real-time lane what it has passed",
        world=in_batches(lambda key: key._replace(passed=None)),
    ),
    "counted": Mutant(
        "micro-batch",
        "the count of the pending events follows what is taken",
        patched(memory_pending, "take", uncounted),
    ),
    "parts": Mutant(
        "micro-batch",
        "a micro-batch takes from a field what it has passed of it",
        patched(memory_pending, "take", whole_fields_only),
    ),
    "rest": Mutant(
        "micro-batch",
        "a micro-batch leaves of a field what lies beyond its applied offset",
        patched(memory_pending, "take", whole_fields_all),
    ),
    "passed": Mutant(
        "micro-batch",
        "a micro-batch takes nothing from the real-time lane beyond its applied offset",
        world=in_batches(lambda key: key._replace(passed=beyond(key.passed))),
    ),
    "again": Mutant(
        "real-time write",
        "what lies at or below the last pending event came before",
        patched(memory_pending, "last_of", lambda fields, topic_partition: -1),  # noqa: ARG005
    ),
    "meanwhile": Mutant(
        "micro-batch",
        "a micro-batch that takes nothing from the real-time lane checks that there is none",
        world=in_batches(unchecked),
    ),
    "publish": Mutant(
        "publish",
        "a publish leaves the real-time lane to the micro-batch lane: no token goes back",
        world=instead(deleting_publish),
    ),
    "resend": Mutant(
        "a store that forgets",
        "after a break the real-time lane goes on from the first that was not acknowledged",
        world=flag("forgets"),
    ),
    "relief": Mutant(
        "real-time write",
        "the real-time lane takes over where the one before it has acknowledged all",
        world=flag("relieves_early"),
    ),
    "builds": Mutant(
        "builds",
        "the real-time lane writes under the names that it was planned by",
        world=flag("forgets_builds"),
    ),
    "off": Mutant(
        "real-time write",
        "the real-time lane's entry stands for the server run that it names",
        patched(decisions, "realtime_over", lambda realtime, server_run: True),  # noqa: ARG005
        flag("ends_applied"),
    ),
}
OF_LIFETIMES = {name: MUTANTS[name] for name in ("order", "resend", "skip", "skip-first", "start")}
"""Mutants that are tried on lifetimes with the real-time lane too."""
