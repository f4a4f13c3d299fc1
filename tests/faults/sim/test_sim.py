"""Random histories of the store's protocol: true at every step, and false without any one rule."""

from __future__ import annotations

import pytest

from tests.faults.sim import pauses
from tests.faults.sim.history import history
from tests.faults.sim.mutants import PAUSES, RULES, removed

SEEDS = 50
MUTANT_SEEDS = 600
"""A rule that no history of so many needs is not held by this simulator."""
FOUND = {"behind": 155, "held": 70, "epoch": 69, "pentadtotal": 51, "start-cover": 35,
         "sweep-incarnation": 26, "sweep-newer": 23, "compare": 22, "compared-hours": 16,
         "sweep-later": 16, "claims": 16, "daytotal": 10, "gap": 8, "incarnation": 4, "ready": 4,
         "term": 4, "monotone": 4, "straddle": 4}  # fmt: skip
"""A history that was found to need the rule is tried before the others: it spares the search while histories stay."""


def test_every_answer_is_what_its_token_says_in_every_history() -> None:
    answers = 0
    for seed in range(SEEDS):
        told = history(seed)
        assert told.wrong is None, f"{told}\nreplay: python -m tests.faults.sim 1 --seed {seed}"
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


@pytest.mark.long
def test_a_seq_that_a_run_is_about_to_name_is_never_trimmed_wherever_both_stop() -> None:
    assert pauses.wrong() is None


@pytest.mark.long
@pytest.mark.parametrize("rule", PAUSES)
def test_without_the_rule_a_trim_takes_what_a_run_is_about_to_name(rule: str) -> None:
    with removed(rule) as rules:
        told = pauses.wrong(rules)
    print(f"without {rule}: {told}")
    assert told is not None


def test_a_seed_is_one_history() -> None:
    assert history(7).story == history(7).story


def test_a_wrong_history_tells_its_story() -> None:
    with removed("last") as rules:
        told = next(t for t in (history(seed, rules) for seed in range(MUTANT_SEEDS)) if t.wrong)
        assert history(told.seed, rules) == told
    assert f"seed {told.seed}: {told.wrong}" in str(told)
    assert any(line.startswith("fold ") for line in told.story)
