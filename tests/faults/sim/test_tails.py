"""Random histories with a tail: every answer true at every step, no token goes back; false without any one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from slicewise import codec, merge_rows, merge_tail
from slicewise.cover import Place
from slicewise.stores import decisions, keys
from slicewise.stores.steps import Change, Command, KeyChange, TailChange, Whole
from tests.faults.sim import tails
from tests.faults.sim.tails import TailWorld, history
from tests.faults.sim.world import archive_cover
from tests.support.stored import place

pytestmark = pytest.mark.long

SEEDS = 50
MUTANT_SEEDS = 400
FOUND = {"terms": 69, "start-cover": 64, "skip-joined": 22, "skip": 14, "cover": 12, "swap": 12, "meanwhile": 7,
         "incarnation": 7, "resend": 5, "skip-first": 2, "off": 2, "last": 1}  # fmt: skip
"""A history that was found to need the rule is tried before the others."""
Patches = Sequence[tuple[Any, str, Any]]
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


def flag(name: str) -> Callable[[TailWorld], None]:
    return lambda world: setattr(world, name, True)


PATCHES: dict[str, Patches] = {
    "cover": [(tails, "floor", lambda start, cover: start)],  # noqa: ARG005
    "start-cover": [
        (tails, "floor", lambda start, cover: 0 if cover == start else cover),
        (decisions, "below_start", lambda offsets, start: np.zeros(len(offsets), bool)),  # noqa: ARG005
    ],
    "start": [(decisions, "check_tail", lambda *given: None), (decisions, "tail_counts", from_anywhere)],  # noqa: ARG005
    "incarnation": [(decisions, "tail_counts", in_any_life)],
    "skip": standing_is(unskipped),
    "skip-first": standing_is(whole_or_nothing),
    "skip-joined": [(decisions, "skipped", lambda stood, guard, first, last: (first, last))],  # noqa: ARG005
}
WORLDS: dict[str, Callable[[TailWorld], None]] = {
    "start": flag("late_start"),
    "incarnation": flag("other_lives"),
    "last": in_tails(lambda change: change._replace(guard=b"-")),
    "deletes": in_folds(lambda key: key._replace(deletes=())),
    "counted": in_folds(lambda key: key._replace(counted=b"")),
    "meanwhile": in_folds(unchecked),
    "swap": instead(deleting_swap),
    "resend": flag("forgets"),
    "terms": flag("forgets_terms"),
    "order": flag("backwards"),
    "off": flag("ends_early"),
}
RULES = sorted({*PATCHES, *WORLDS})


@contextmanager
def removed(rule: str) -> Iterator[tuple[Callable[[TailWorld], None], ...]]:
    """Without this rule; what is left to do to each world."""
    with ExitStack() as stack:
        for where, name, value in PATCHES.get(rule, ()):
            stack.enter_context(patch.object(where, name, value))
        yield (WORLDS[rule],) if rule in WORLDS else ()


def test_every_answer_with_a_tail_is_what_its_token_says_in_every_history() -> None:
    answers = 0
    for seed in range(SEEDS):
        told = history(seed)
        assert told.wrong is None, str(told)
        answers += told.answers
    print(f"seeds 0..{SEEDS - 1}: {answers} answers compared, none wrong")
    assert answers > 100 * SEEDS, "histories in which hardly anything is ready prove nothing"


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_a_history_goes_wrong(rule: str) -> None:
    with removed(rule) as rules:
        for seed in (FOUND.get(rule, 0), *range(MUTANT_SEEDS)):
            told = history(seed, rules)
            if told.wrong is not None:
                print(f"without {rule}: seed {seed}: {told.wrong}")
                return
    pytest.fail(f"{MUTANT_SEEDS} histories do not need the rule {rule!r}")


def test_a_seed_is_one_history() -> None:
    assert history(7).story == history(7).story
