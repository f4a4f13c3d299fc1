"""Every registered aggregate can be given to a condition and to buckets, and obeys the laws there
too."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewise.aggregates import REGISTRY, Aggregate, Event
from slicewise.aggregates.combinators.buckets import Bucketed
from slicewise.aggregates.combinators.conditional import only
from slicewise.aggregates.sketches.membership import membership_of
from tests.laws import laws
from tests.laws.events import events

LAWS = (
    laws.any_split_gives_the_same_bytes,
    laws.rows_and_columns_agree,
    laws.the_oracle_agrees,
    laws.bytes_come_back,
)


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_every_kind_obeys_within_buckets_and_under_a_condition(kind: str) -> None:
    inner = REGISTRY[kind].bound_examples()[0]
    types = {column: inner.type_of(column) for column in inner.inputs} | {
        "key": pa.bool_(),
        "held": pa.bool_(),
    }
    # a filter is asked as a whole
    buckets = inner if membership_of(inner) is not None else Bucketed(inner, "key", 2)
    made: Aggregate = only(buckets, "held", "held").bind(types)

    @settings(
        max_examples=3,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(events(types), st.integers(0, 2**32))
    def holds(chosen: list[Event], seed: int) -> None:
        for law in LAWS:
            law(made, chosen, Random(seed))

    holds()
