"""The engine of a data set follows from its size and the memory that is free."""

from __future__ import annotations

from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import BadRequest
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.training.requests.training_request import refuse_engine
from slicewise.training.scaled.choosing import Load, choose, value_bytes

GB = 10**9
SMALL, LARGE = Load(1_000_000, 1_000, 160), Load(100_000_000, 1_000, 160)


@pytest.mark.parametrize(
    ("engine", "load", "has_spark", "chosen", "why"),
    [
        ("auto", SMALL, True, "local", "the local engine; 1,000,000 events, 1,000 rows: about 0.4"),
        ("auto", LARGE, True, "spark", "Spark; 100,000,000 events"),
        ("auto", LARGE, False, "local", "as there is no Spark; it may have no room"),
        ("auto", Load(0, 10**6, 40_000), True, "spark", "40.0 GB of 16.0 GB that are free"),
        ("local", LARGE, True, "local", "as wanted"),
        ("spark", SMALL, True, "spark", "as wanted"),
    ],
)
def test_what_has_no_room_is_for_spark(
    engine: str, load: Load, has_spark: bool, chosen: str, why: str
) -> None:
    choice = choose(engine, load, 16 * GB, has_spark=has_spark)
    assert choice.engine == chosen
    assert why in choice.why


def test_an_engine_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"(?s)engine 'flink'.*auto, local or spark"):
        refuse_engine("flink")


@pytest.mark.parametrize(
    ("aggregate", "most"),
    [
        (sw.count(), 40),
        (sw.sum("n"), 40),
        (sw.last_k("n", k=200), 20_040),
        (sw.count_by("n"), 5_000),
    ],
)
def test_a_list_weighs_what_it_may_hold(aggregate: Any, most: int) -> None:
    view = sw.FeatureView(
        "v",
        source=sw.KafkaSource(
            "s", schema={"u": "string", "n": "int64", "t": "timestamp_us"}, timestamp="t"
        ),
        entity=["u"],
        features=[sw.Feature("x", aggregate, ["1h"])],
    )
    (unit,) = plan(Project.of("p", [view])).units
    assert 40 <= value_bytes(unit.features[0].aggregate) <= most
