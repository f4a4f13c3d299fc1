"""Random histories of event lists: true at every step, and false without any one rule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest

from slicewise.stores import decisions, keys, memory
from tests.faults.sim import lists
from tests.faults.sim.lists import history

pytestmark = pytest.mark.long

SEEDS = 60
MUTANT_SEEDS = 600

Patches = tuple[tuple[Any, str, Any], ...]


def without_generation() -> Patches:
    one, other = keys.list_key, keys.members_key
    return (
        (keys, "list_key", lambda generation, tag, unit: one(0, tag, unit)),  # noqa: ARG005
        (keys, "members_key", lambda generation, tag, unit: other(0, tag, unit)),  # noqa: ARG005
    )


PATCHES: dict[str, Callable[[], Patches]] = {
    "low-water": lambda: ((decisions, "above_low_water", lambda members, low: members),),  # noqa: ARG005
    "mark": lambda: ((memory, "LOW", b"-"),),
    "rows": lambda: ((decisions, "surplus", lists.surplus_by_time),),
    "room": lambda: ((decisions, "surplus", lists.without_room),),
    "rebuild": lambda: ((decisions, "lists_to_rebuild", lambda units, marks: set()),),  # noqa: ARG005
    "list-generation": without_generation,
}
WORLDS: dict[str, Callable[[lists.ListWorld], None]] = {"list-compare": lists.lax}
RULES = sorted({*PATCHES, *WORLDS})


def test_every_list_is_what_its_token_says_in_every_history() -> None:
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
        for where, name, value in PATCHES.get(rule, tuple)():
            stack.enter_context(patch.object(where, name, value))
        rules = (WORLDS[rule],) if rule in WORLDS else ()
        for seed in range(MUTANT_SEEDS):
            told = history(seed, rules)
            if told.wrong is not None:
                print(f"without {rule}: seed {seed}: {told.wrong}")
                return
    pytest.fail(f"{MUTANT_SEEDS} histories do not need the rule {rule!r}")


def test_a_seed_is_one_history() -> None:
    assert history(7).story == history(7).story
