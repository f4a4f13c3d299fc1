"""Every law fails on an aggregate that breaks it: a law that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slicewise.aggregates import Aggregate
from tests.laws.events import events
from tests.laws.laws import LAWS, Law
from tests.laws.mutants import MUTANTS


@pytest.mark.parametrize(
    ("make", "law"),
    MUTANTS,
    ids=[f"{make().__class__.__name__}-{law.__name__}" for make, law in MUTANTS],
)
def test_the_law_finds_the_mutant(make: Callable[[], Aggregate], law: Law) -> None:
    aggregate = make()
    types = {column: aggregate.type_of(column) for column in aggregate.inputs}

    @settings(
        # Hypothesis also draws on the constants of whatever modules are loaded, so that the
        # examples differ between this file alone and the whole suite; the first failure ends the
        # search, so a large bound costs nothing.
        max_examples=5_000,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(events(types), st.integers(0, 2**32))
    def holds(chosen: list[object], seed: int) -> None:
        law(aggregate, chosen, Random(seed))  # type: ignore[arg-type]

    with pytest.raises(AssertionError):
        holds()


def test_every_law_has_a_mutant() -> None:
    assert {law for _, law in MUTANTS} == set(LAWS)
