"""Random histories of lifetimes: true at every step, and false without any one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from slicewise.cover import Cover
from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.lifetime import Move, Reached
from slicewise.stores import decisions, keys
from slicewise.stores import lifetime as stored
from slicewise.stores.decisions import Swap
from slicewise.stores.operations import Operations
from slicewise.stores.steps import Change, KeyChange
from tests.faults.sim.lifetime import LifetimeWorld, history, paused

pytestmark = pytest.mark.long

SEEDS = 40
MUTANT_SEEDS = 300
FOUND = {"total-guards": 176, "total-straddle": 9, "late": 5, "total-days": 3, "total-named": 3}
"""A history that was found to need the rule is tried before the others."""

Patches = tuple[tuple[Any, str, Any], ...]
decision, check_lifetime, next_move = decisions.lifetime_decision, decisions.check_lifetime, moves.next_move


def ahead(seq: int, cover: Cover, start: Cover, ledger: Cover) -> None:  # noqa: ARG001
    check_lifetime(seq, cover, start, cover)


def lenient(*left_out: str) -> Callable[..., Any]:
    """A decision that does not look at some of what it is told."""

    def decide(
        horizon: int, seq: int, cover: Cover, since: int | None, stands: Any, compacted: Any, running: Any
    ) -> tuple[Swap, tuple[bytes, ...]]:
        if "straddle" in left_out:
            action, deletes = decision(horizon, seq, cover, since, stands, compacted, ())
            below = [part.field for part in running if part.last < cover.get(part.place)]
            return action, tuple(below) if action is Swap.SWAP else deletes
        return decision(
            horizon,
            seq,
            cover,
            None if "since" in left_out and stands is not None and stands[0] < horizon else since,
            None if "label" in left_out else stands,
            () if "compacted" in left_out else compacted,
            running,
        )

    return decide


def added_to_anything(
    horizon: int, seq: int, cover: Cover, since: int | None, stands: Any, compacted: Any, running: Any
) -> tuple[Swap, tuple[bytes, ...]]:
    """Adds hours from `since` on to a total that may hold some of them."""
    if since is not None and stands is not None and since < stands[0] and stands != (horizon, seq):
        return decision(horizon, seq, cover, None, None, compacted, running)
    return decision(horizon, seq, cover, since, stands, compacted, running)


def never_below(self: Operations, unit: Any, hour: int) -> Any:  # noqa: ARG001
    yield from ()
    return False


def none_late(hours: UnitHours, reached: Reached) -> list[int]:  # noqa: ARG001
    return []


def dirty_too(hours: UnitHours, reached: Reached | None, target: int, seq: int) -> Move | None:
    """Moves what is compacted, whatever was archived since."""
    clean = UnitHours({h: s for h, s in hours.newest.items() if h in hours.compacted}, hours.compacted, {})
    newest = {h: min(s, hours.compacted[h].holds) for h, s in clean.newest.items()}
    return next_move(UnitHours(newest, hours.compacted, {}), reached, target, seq)


def named_without_totals() -> Patches:
    honest = UnitHours.named
    return ((UnitHours, "named", lambda self: [each for each in honest(self) if each[0] not in self.totals]),)


def unchecked(wanted: Callable[[Change, bytes], bool]) -> Callable[[LifetimeWorld], None]:
    def apply(world: LifetimeWorld) -> None:
        world.server.unchecked = wanted

    return apply


def guards_in_a_bring(change: Change, field: bytes) -> bool:
    return field.startswith(b"l:") and keys.LIFETIME in [name for name, _, _ in change.keys[0].sets]


def announced_in_a_mark(change: Change, field: bytes) -> bool:
    return field == decisions.ANNOUNCED and any(name.startswith(b"h:") for name, _, _ in change.keys[0].sets)


def expiring(world: LifetimeWorld) -> None:
    world.server.guards_expire = True


PATCHES: dict[str, Callable[[], Patches]] = {
    "total-ledger": lambda: ((decisions, "check_lifetime", ahead),),
    "total-straddle": lambda: ((decisions, "lifetime_decision", lenient("straddle")),),
    "total-monotone": lambda: ((decisions, "lifetime_decision", lenient("label")),),
    "total-compacted": lambda: ((decisions, "lifetime_decision", lenient("compacted")),),
    "total-since": lambda: ((decisions, "lifetime_decision", added_to_anything),),
    "total-days": lambda: ((stored, "_emptied", lambda day, raw: KeyChange(day, [(keys.HOURS, b"=" + raw)])),),
    "swap-below": lambda: ((Operations, "_below_horizon", never_below),),
    "late": lambda: ((moves, "late_hours", none_late),),
    "dirty": lambda: ((moves, "next_move", dirty_too),),
    "total-named": named_without_totals,
}
WORLDS: dict[str, Callable[[LifetimeWorld], None]] = {
    "total-guards": unchecked(guards_in_a_bring),
    "horizon-count": unchecked(announced_in_a_mark),
    "guards-expire": expiring,
}
PAUSES = ("horizon-count", "swap-below", "total-compacted")
"""Rules that every pair of stops of two runs is played for: at random they are met too rarely."""
RULES = sorted({*PATCHES, *WORLDS} - {*PAUSES})


def test_every_lifetime_is_what_its_token_says_in_every_history() -> None:
    answers = 0
    for seed in range(SEEDS):
        told = history(seed)
        assert told.wrong is None, str(told)
        answers += told.answers
    print(f"seeds 0..{SEEDS - 1}: {answers} answers compared, none wrong")
    assert answers > 100 * SEEDS, "histories in which hardly anything is ready prove nothing"


def test_late_events_and_a_move_of_their_hour_are_true_wherever_both_stop() -> None:
    assert paused() is None


@pytest.mark.parametrize("rule", PAUSES)
def test_without_the_rule_two_runs_lose_events(rule: str) -> None:
    with removed(rule) as rules:
        told = paused(rules)
    print(f"without {rule}: {told}")
    assert told is not None


@contextmanager
def removed(rule: str) -> Iterator[tuple[Callable[[LifetimeWorld], None], ...]]:
    """Without this rule; what is left to do to each world."""
    with ExitStack() as stack:
        for where, name, value in PATCHES.get(rule, tuple)():
            stack.enter_context(patch.object(where, name, value))
        yield (WORLDS[rule],) if rule in WORLDS else ()


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
