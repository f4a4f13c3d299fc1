"""Random histories of lifetimes with a tail: true at every step, and false without any one rule."""

from __future__ import annotations

import pytest

from tests.faults.sim.tail_lifetime import history
from tests.faults.sim.test_tails import removed

pytestmark = pytest.mark.long

SEEDS = 20
MUTANT_SEEDS = 200
RULES = ("order", "resend", "skip", "skip-first", "start")
FOUND = {"resend": 27, "order": 4, "skip": 4, "skip-first": 2, "start": 1}
"""A history that was found to need the rule is tried before the others."""


def test_every_lifetime_with_a_tail_is_what_its_token_says_in_every_history() -> None:
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
