"""Every registered aggregate obeys every law, on hostile events."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewise.aggregates import REGISTRY, Aggregate
from tests.laws.events import events
from tests.laws.laws import LAWS, Law
from tests.laws.oracle import ENDED, ORACLES

EXAMPLES = [example for registration in REGISTRY.values() for example in registration.bound_examples()]


def _name(aggregate: Aggregate) -> str:
    types = "-".join(str(kind) for kind in aggregate.types or ())
    return f"{aggregate.kind}-{types}"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("aggregate", EXAMPLES, ids=_name)
def test_every_aggregate_obeys(aggregate: Aggregate, law: Law) -> None:
    types = {column: aggregate.type_of(column) for column in aggregate.inputs}

    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(events(types), st.integers(0, 2**32))
    def holds(chosen: list[object], seed: int) -> None:
        law(aggregate, chosen, Random(seed))  # type: ignore[arg-type]

    holds()


def test_every_registered_kind_has_an_oracle_and_examples() -> None:
    assert set(REGISTRY) == set(ORACLES) | set(ENDED)
    for kind, registration in REGISTRY.items():
        assert registration.bound_examples(), kind
        for example in registration.bound_examples():
            assert example.kind == kind
