"""What removes a rule of the tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slicewise import codec, merge_rows, merge_tail
from slicewise.cover import Place
from slicewise.stores import decisions, keys
from slicewise.stores.steps import Change, Command, KeyChange, TailChange, Whole
from tests.faults.sim import tails
from tests.faults.sim.rules import Mutant, Patches, flag, patched
from tests.faults.sim.tails import TailWorld
from tests.faults.sim.world import archive_cover
from tests.support.stored import place

tail_counts, standing = decisions.tail_counts, merge_tail.standing


def in_any_life(tail: Any, incarnation: Any, ledger: Any) -> bool:  # noqa: ARG001
    return tail is not None and tail_counts(tail, tail.incarnation, ledger)


def from_anywhere(tail: Any, incarnation: Any, ledger: Any) -> bool:  # noqa: ARG001
    return tail is not None and tail_counts(tail, incarnation, tail.start)


def unskipped(fields: Any, place: Place) -> tuple[int, int]:
    return standing({name: value for name, value in fields.items() if not name.startswith(b"x:")}, place)


def whole_or_nothing(fields: Any, place: Place) -> tuple[int, int]:
    """A skip hides all that is beyond the guard."""
    first, end = standing(fields, place)
    return (first, end) if end == merge_tail.NEVER else (0, 0)


def standing_is(what: Callable[[Any, Place], tuple[int, int]]) -> Patches:
    return [(merge_tail, "standing", what), (merge_rows, "standing", what)]


def in_tails(what: Callable[[TailChange], Command]) -> Callable[[TailWorld], None]:
    return instead(lambda _, command: what(command) if isinstance(command, TailChange) else command)


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


def unchecked(key: KeyChange) -> KeyChange:
    return key._replace(checks=[check for check in key.checks if check[0] != keys.TAIL_COUNT])


def deleting_swap(world: TailWorld, command: Command) -> Command:
    """A swap that takes the tail fields of its hour that it contains."""
    if not isinstance(command, Change) or [b":day:" in key.key for key in command.keys] != [True, False]:
        return command
    day, hot = command.keys
    compacted = codec.unpack_hours(next((value for name, value, _ in day.sets if name == keys.HOURS), None))
    gone = []
    for name in world.server.execute(Whole(hot.key))[::2]:
        if name.startswith(b"e:"):
            _, number, _, partition, offset = name.split(b":")
            size = int(next(u.slice_us for u in world.units if u.storage_fingerprint.encode() in hot.key))
            seq = compacted.get(decisions.hour_of(int(number), size), 0)
            if seq and int(offset) < archive_cover(world.archive[seq]).get(place(int(partition))):
                gone.append(name)
    more = KeyChange(hot.key, hot.checks, (), gone, keys.TAIL_COUNT)
    return Change((day, hot, more)) if gone else command


def below_no_start() -> Patches:
    return [
        (tails, "floor", lambda start, cover: 0 if cover == start else cover),
        (decisions, "below_start", lambda offsets, start: np.zeros(len(offsets), bool)),  # noqa: ARG005
    ]


def begun_anywhere() -> Patches:
    return [(decisions, "check_tail", lambda *given: None), (decisions, "tail_counts", from_anywhere)]  # noqa: ARG005


MUTANTS: dict[str, Mutant] = {
    "cover": Mutant(
        "§6 tail write",
        "a tail field that its hour has compacted does not count",
        patched(tails, "floor", lambda start, cover: start),  # noqa: ARG005
    ),
    "start-cover": Mutant("§10 start cover", "a tail leaves out what is below the start cover", below_no_start),
    "start": Mutant(
        "§6 tail write", "a tail begins at or before the fold's ledger", begun_anywhere, flag("late_start")
    ),
    "incarnation": Mutant(
        "§6 a store that forgets",
        "a tail's fields count in the life that its mark names",
        patched(decisions, "tail_counts", in_any_life),
        flag("other_lives"),
    ),
    "skip": Mutant("§6 tail write", "what is beyond a skip waits for the fold", lambda: standing_is(unskipped)),
    "skip-first": Mutant("§6 tail write", "what is before a skip counts", lambda: standing_is(whole_or_nothing)),
    "skip-joined": Mutant(
        "§6 tail write",
        "skips are joined until the guard has passed them",
        patched(decisions, "skipped", lambda stood, guard, first, last: (first, last)),  # noqa: ARG005
    ),
    "last": Mutant(
        "§6 tail write",
        "a tail writes only beyond the entity's guard",
        world=in_tails(lambda change: change._replace(guard=b"-")),
    ),
    "order": Mutant("§6 tail write", "an entity's events are written in offset order", world=flag("backwards")),
    "deletes": Mutant(
        "§6 fold",
        "a fold deletes the tail fields that it has passed",
        world=in_folds(lambda key: key._replace(deletes=())),
    ),
    "counted": Mutant(
        "§6 fold",
        "the count of tail fields follows what is deleted",
        world=in_folds(lambda key: key._replace(counted=b"")),
    ),
    "meanwhile": Mutant(
        "§6 fold", "a fold that deletes no tail fields checks that there are none", world=in_folds(unchecked)
    ),
    "swap": Mutant(
        "§8 swap", "a swap leaves tail fields to the fold: no token goes back", world=instead(deleting_swap)
    ),
    "resend": Mutant(
        "§6 a store that forgets",
        "after a break a tail goes on from the first that was not acknowledged",
        world=flag("forgets"),
    ),
    "relief": Mutant(
        "§6 tail write",
        "a tail takes over where the one before it has acknowledged all",
        world=flag("relieves_early"),
    ),
    "terms": Mutant("§10 terms", "a tail writes under the names that it was planned by", world=flag("forgets_terms")),
    "off": Mutant(
        "§6 tail write",
        "a tail's mark stands for the life of the store that it names",
        patched(decisions, "tail_over", lambda tail, incarnation: True),  # noqa: ARG005
        flag("ends_folded"),
    ),
}
OF_LIFETIMES = {name: MUTANTS[name] for name in ("order", "resend", "skip", "skip-first", "start")}
"""Those that are removed from lifetimes with a tail too."""
