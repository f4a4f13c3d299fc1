"""Random histories of lists with a tail: true at every step, and false without any one rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from slicewise.stores import decisions
from tests.faults.sim.tail_lists import TailListWorld, history

pytestmark = pytest.mark.long

SEEDS = 30
MUTANT_SEEDS = 300
FOUND = {"start-cover": 147, "low-water": 2, "order": 1}
"""A history that was found to need the rule is tried before the others."""


def flag(name: str) -> Callable[[TailListWorld], None]:
    return lambda world: setattr(world, name, True)


def without_guard(world: TailListWorld) -> None:
    world.server.guards = False


PATCHES: dict[str, Sequence[tuple[Any, str, Any]]] = {
    "start-cover": [(decisions, "below_start", lambda offsets, start: np.zeros(len(offsets), bool))],  # noqa: ARG005
    "low-water": [(decisions, "above_low_water", lambda members, low: members)],  # noqa: ARG005
}
WORLDS: dict[str, Callable[[TailListWorld], None]] = {
    "guard": without_guard,
    "start": flag("late_start"),
    "order": flag("backwards"),
    "resend": flag("forgets"),
}
RULES = sorted({*PATCHES, *WORLDS})


def test_every_list_with_a_tail_is_what_its_token_says_in_every_history() -> None:
    answers = 0
    for seed in range(SEEDS):
        told = history(seed)
        assert told.wrong is None, str(told)
        answers += told.answers
    print(f"seeds 0..{SEEDS - 1}: {answers} lists compared, none wrong")
    assert answers > 100 * SEEDS, "histories in which hardly anything is ready prove nothing"


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_a_history_goes_wrong(rule: str) -> None:
    with ExitStack() as stack:
        for where, name, value in PATCHES.get(rule, ()):
            stack.enter_context(patch.object(where, name, value))
        rules = (WORLDS[rule],) if rule in WORLDS else ()
        for seed in (FOUND.get(rule, 0), *range(MUTANT_SEEDS)):
            told = history(seed, rules)
            if told.wrong is not None:
                print(f"without {rule}: seed {seed}: {told.wrong}")
                return
    pytest.fail(f"{MUTANT_SEEDS} histories do not need the rule {rule!r}")
