"""The engine of a data set follows from its size and the memory that is free."""

from __future__ import annotations

import pytest

from slicewise.errors import BadRequest
from slicewise.training.requests.training_request import refuse_engine
from slicewise.training.scaled.choosing import Load, choose

GB = 10**9
SMALL, LARGE = Load(1_000_000, 1_000, 4), Load(100_000_000, 1_000, 4)


@pytest.mark.parametrize(
    ("engine", "load", "has_spark", "chosen", "why"),
    [
        ("auto", SMALL, True, "local", "the local engine; 1,000,000 events, 1,000 rows: about 0.4"),
        ("auto", LARGE, True, "spark", "Spark; 100,000,000 events"),
        ("auto", LARGE, False, "local", "as there is no Spark; it may have no room"),
        ("auto", Load(0, 10**6, 1000), True, "spark", "40.0 GB of 16.0 GB that are free"),
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
