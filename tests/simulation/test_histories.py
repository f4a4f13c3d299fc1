"""Random histories of every world: true at every step, and false without any one rule."""

from __future__ import annotations

import pytest

from tests.simulation.catalog import ENTRIES, Entry, rules
from tests.simulation.histories.search import LEAST_ANSWERS
from tests.simulation.histories.seeds import SEEDS

MUTANT_SEEDS = 600
"""A rule that no history of so many needs is not held by this simulator."""


def long_but_slices(entry: Entry) -> list[pytest.MarkDecorator]:
    return [] if entry.name == "slices" else [pytest.mark.long]


@pytest.mark.long
@pytest.mark.replayed
@pytest.mark.parametrize("entry", [pytest.param(e, id=e.name) for e in ENTRIES.values()])
def test_every_answer_is_what_its_token_says_in_every_history(entry: Entry) -> None:
    answers = 0
    for seed in range(entry.histories):
        history = entry.play.history(seed)
        assert history.wrong is None, (
            f"{history}\nreplay: python -m tests.simulation --world {entry.name} --seed {seed}"
        )
        answers += history.answers
    print(f"{entry.name}: seeds 0..{entry.histories - 1}: {answers} answers compared, none wrong")
    assert answers > LEAST_ANSWERS * entry.histories, (
        "histories in which hardly anything is ready prove nothing"
    )


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        pytest.param(e, r, id=f"{e.name}-{r}", marks=long_but_slices(e))
        for e, r in rules()
        if e.mutants[r].met
    ],
)
def test_without_the_rule_a_history_goes_wrong(entry: Entry, rule: str) -> None:
    history = entry.search(rule, MUTANT_SEEDS)
    assert history is not None, (
        f"{MUTANT_SEEDS} histories of {entry.name} do not need the rule {rule!r}"
    )
    print(f"{entry.name} without {rule}: seed {history.seed}: {history.wrong}")
    listed = SEEDS.get(entry.name, {}).get(rule, 0)
    assert history.seed == listed, (
        f"seed {listed} does not need the rule any more, and every run searches for another: "
        "list anew by python -m tests.simulation --rules"
    )


@pytest.mark.parametrize(
    "entry", [pytest.param(e, id=e.name, marks=long_but_slices(e)) for e in ENTRIES.values()]
)
def test_a_seed_and_its_tape_are_one_history(entry: Entry) -> None:
    history = entry.play.history(7)
    assert entry.play.history(7) == history
    assert entry.play.history(7, tape=history.tape) == history
