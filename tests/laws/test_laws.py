"""Every registered aggregate obeys every law, on hostile events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewise.aggregates import REGISTRY, Aggregate, Event
from tests.laws.events import events
from tests.laws.laws import LAWS
from tests.laws.oracles.aggregates import ENDED, ORACLES

EXAMPLES = [
    example for registration in REGISTRY.values() for example in registration.bound_examples()
]


def _name(aggregate: Aggregate) -> str:
    types = "-".join(str(kind) for kind in aggregate.types or ())
    return f"{aggregate.kind}-{types}"


@pytest.mark.parametrize("aggregate", EXAMPLES, ids=_name)
def test_every_aggregate_obeys_every_law(aggregate: Aggregate) -> None:
    types = {column: aggregate.type_of(column) for column in aggregate.inputs}

    # what was drawn is given to all laws
    @settings(
        max_examples=settings().max_examples // 12,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(events(types), st.integers(0, 2**32))
    def holds(chosen: list[Event], seed: int) -> None:
        for law in LAWS:
            law(aggregate, chosen, Random(seed))

    holds()


def test_every_registered_kind_has_an_oracle_and_examples() -> None:
    assert set(REGISTRY) == set(ORACLES) | set(ENDED)
    for kind, registration in REGISTRY.items():
        assert registration.bound_examples(), kind
        for example in registration.bound_examples():
            assert example.kind == kind
