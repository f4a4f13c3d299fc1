"""Mutants without a rule of the tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slicewise import codec
from slicewise.offsets.vector import TopicPartition
from slicewise.reading import pending as merge_tail
from slicewise.reading import rows as merge_rows
from slicewise.stores.online import keys
from slicewise.stores.online.memory import pending as memory_tail
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Change, Command, KeyChange, Passed, PendingChange, Whole
from tests.simulation.mutants.rules import Mutant, Patches, flag, patched
from tests.simulation.worlds import tails
from tests.simulation.worlds.tails import TailWorld, in_tail
from tests.simulation.worlds.world import archive_cover
from tests.support.stores.stored import NO_COLUMNS, Event, rows_of

tail_counts, standing, take = decisions.tail_counts, merge_tail.standing, memory_tail.take


def in_any_life(tail: Any, incarnation: Any, ledger: Any) -> bool:  # noqa: ARG001
    return tail is not None and tail_counts(tail, tail.incarnation, ledger)


def from_anywhere(tail: Any, incarnation: Any, ledger: Any) -> bool:  # noqa: ARG001
    return tail is not None and tail_counts(tail, incarnation, tail.start)


def unskipped(fields: Any, place: TopicPartition) -> tuple[int, int]:
    return standing({name: value for name, value in fields.items() if not name.startswith(b"x:")}, place)


def whole_or_nothing(fields: Any, place: TopicPartition) -> tuple[int, int]:
    """A skip hides all that is beyond the guard."""
    first, end = standing(fields, place)
    return (first, end) if end == merge_tail.NEVER else (0, 0)


def standing_is(what: Callable[[Any, TopicPartition], tuple[int, int]]) -> Patches:
    return [(merge_tail, "standing", what), (merge_rows, "standing", what)]


def in_tails(what: Callable[[PendingChange], Command]) -> Callable[[TailWorld], None]:
    return instead(lambda _, command: what(command) if isinstance(command, PendingChange) else command)


def in_folds(what: Callable[[KeyChange], KeyChange]) -> Callable[[TailWorld], None]:
    def change(_: TailWorld, command: Command) -> Command:
        if not isinstance(command, Change) or not command.keys[0].key.endswith(b":hot"):
            return command
        return Change((what(command.keys[0]), *command.keys[1:]))

    return instead(change)


def instead(what: Callable[[TailWorld, Command], Command]) -> Callable[[TailWorld], None]:
    def apply(world: TailWorld) -> None:
        world.server.instead = lambda command: what(world, command)

    return apply


def beyond(passed: Passed | None) -> Passed | None:
    return None if passed is None else passed._replace(offset=passed.offset + 1)


def unchecked(key: KeyChange) -> KeyChange:
    return key._replace(checks=[check for check in key.checks if check[0] != keys.TAIL_COUNT])


def deleting_swap(world: TailWorld, command: Command) -> Command:
    """A swap that takes the events of its hour that it contains from the tail."""
    if not isinstance(command, Change) or [b":day:" in key.key for key in command.keys] != [True, False]:
        return command
    day, hot = command.keys
    compacted = codec.unpack_hours(next((value for name, value, _ in day.sets if name == keys.HOURS), None))
    flat = world.server.execute(Whole(hot.key))
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    mine, stay = in_tail(fields), []
    size = next(u.slice_us for u in world.units if u.storage_fingerprint.encode() in hot.key)
    for at, offset, time in mine:
        seq = compacted.get(decisions.hour_of(time // size, size), 0)
        if not seq or offset >= archive_cover(world.archive[seq]).get(at):
            stay.append((at, offset, time))
    if len(stay) == len(mine):
        return command
    wanted = {name: value for name, value in fields.items() if name[:1] not in b"qom"}
    for at, offset, time in stay:
        (member,) = NO_COLUMNS.encode(rows_of([Event(0, time, at[1], offset)]))
        memory_tail.append(wanted, keys.place_text(at), [member], world.room)
    sets = [(name, value, 0) for name, value in wanted.items() if name[:1] in b"qom"]
    more = KeyChange(hot.key, hot.checks, sets, [name for name in fields if name not in wanted])
    return Change((day, hot, more))


def uncounted(fields: dict[bytes, bytes], passed: Passed) -> None:
    """Takes events in a fold, and leaves them in the count."""
    count = fields.get(keys.TAIL_COUNT)
    take(fields, passed)
    if count is not None:
        fields[keys.TAIL_COUNT] = count


def whole_fields_only(fields: dict[bytes, bytes], passed: Passed) -> None:
    """A field that the fold has passed in part stays as it is."""
    ends = [last for _, last in last_offsets(fields, passed.place) if last <= passed.offset]
    if ends:
        take(fields, passed._replace(offset=max(ends)))


def whole_fields_all(fields: dict[bytes, bytes], passed: Passed) -> None:
    """A field that the fold has passed in part goes."""
    ends = [last for first, last in last_offsets(fields, passed.place) if first <= passed.offset]
    if ends:
        take(fields, passed._replace(offset=max(ends)))


def last_offsets(fields: dict[bytes, bytes], place: bytes) -> list[tuple[int, int]]:
    """First and last offset of each tail field of a place."""
    found = []
    for name, value in fields.items():
        if name.startswith(keys.tail_field(place, 0)[:-1]):
            last, members = codec.unpack_tail(value)
            found.append((int(NO_COLUMNS.decode(members).offset[0]), last))
    return found


def below_no_start() -> Patches:
    return [
        (tails, "floor", lambda start, cover: 0 if cover == start else cover),
        (decisions, "below_start", lambda offsets, start: np.zeros(len(offsets), bool)),  # noqa: ARG005
    ]


def begun_anywhere() -> Patches:
    return [(decisions, "check_tail", lambda *given: None), (decisions, "tail_counts", from_anywhere)]  # noqa: ARG005


MUTANTS: dict[str, Mutant] = {
    "cover": Mutant(
        "tail write",
        "an event of the tail that its hour has compacted does not count",
        patched(tails, "floor", lambda start, cover: start),  # noqa: ARG005
    ),
    "start-cover": Mutant("start cover", "a tail leaves out what is below the start cover", below_no_start),
    "start": Mutant("tail write", "a tail begins at or before the fold's ledger", begun_anywhere, flag("late_start")),
    "incarnation": Mutant(
        "a store that forgets",
        "a tail's fields count in the life that its mark names",
        patched(decisions, "tail_counts", in_any_life),
        flag("other_lives"),
    ),
    "skip": Mutant("tail write", "what is beyond a skip waits for the fold", lambda: standing_is(unskipped)),
    "skip-first": Mutant("tail write", "what is before a skip counts", lambda: standing_is(whole_or_nothing)),
    "skip-joined": Mutant(
        "tail write",
        "skips are joined until the guard has passed them",
        patched(decisions, "skipped", lambda stood, guard, first, last: (first, last)),  # noqa: ARG005
    ),
    "last": Mutant(
        "tail write",
        "a tail writes only beyond the entity's guard",
        world=in_tails(lambda change: change._replace(guard=b"-")),
    ),
    "order": Mutant("tail write", "an entity's events are written in offset order", world=flag("backwards")),
    "deletes": Mutant(
        "fold",
        "a fold takes from the tail what it has passed",
        world=in_folds(lambda key: key._replace(passed=None)),
    ),
    "counted": Mutant(
        "fold",
        "the count of the tail's events follows what is taken",
        patched(memory_tail, "take", uncounted),
    ),
    "parts": Mutant(
        "fold",
        "a fold takes from a field what it has passed of it",
        patched(memory_tail, "take", whole_fields_only),
    ),
    "rest": Mutant(
        "fold", "a fold leaves of a field what lies beyond its guard", patched(memory_tail, "take", whole_fields_all)
    ),
    "passed": Mutant(
        "fold",
        "a fold takes nothing from the tail beyond its guard",
        world=in_folds(lambda key: key._replace(passed=beyond(key.passed))),
    ),
    "again": Mutant(
        "tail write",
        "what lies at or below the last event of the tail came before",
        patched(memory_tail, "last_of", lambda fields, place: -1),  # noqa: ARG005
    ),
    "meanwhile": Mutant(
        "fold", "a fold that takes nothing from the tail checks that there is none", world=in_folds(unchecked)
    ),
    "swap": Mutant("swap", "a swap leaves the tail to the fold: no token goes back", world=instead(deleting_swap)),
    "resend": Mutant(
        "a store that forgets",
        "after a break a tail goes on from the first that was not acknowledged",
        world=flag("forgets"),
    ),
    "relief": Mutant(
        "tail write",
        "a tail takes over where the one before it has acknowledged all",
        world=flag("relieves_early"),
    ),
    "terms": Mutant("terms", "a tail writes under the names that it was planned by", world=flag("forgets_terms")),
    "off": Mutant(
        "tail write",
        "a tail's mark stands for the life of the store that it names",
        patched(decisions, "tail_over", lambda tail, incarnation: True),  # noqa: ARG005
        flag("ends_folded"),
    ),
}
OF_LIFETIMES = {name: MUTANTS[name] for name in ("order", "resend", "skip", "skip-first", "start")}
"""Those that are removed from lifetimes with a tail too."""
