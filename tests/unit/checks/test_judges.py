"""No aggregate goes unchecked: each has SQL or a judge, and a judge sees rows in their total
order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from slicewise.aggregates import REGISTRY
from slicewise.checks import judges
from slicewise.checks.judges import Row, judge, judged
from slicewise.checks.recompute.queries import BY_SQL
from slicewise.errors import UnknownName


def test_every_aggregate_is_recomputed_by_sql_or_by_a_judge() -> None:
    assert not set(REGISTRY) - BY_SQL - set(judges.judges())


@pytest.fixture
def offsets() -> Iterator[str]:
    """The kind of a judge that lists the offsets as it was given them."""

    @judge("offsets")
    def listed(rows: Sequence[Row], _spec: Mapping[str, Any]) -> Any:
        return [row.offset for row in rows]

    yield "offsets"
    judges._JUDGES.pop("offsets")


def test_a_judge_is_given_the_rows_by_time_topic_partition_offset(offsets: str) -> None:
    rows = [Row(2, "a", 0, 1, {}), Row(1, "b", 0, 2, {}), Row(1, "a", 1, 3, {}), Row(1, "a", 0, 5, {}),
            Row(1, "a", 0, 4, {})]  # fmt: skip
    assert judged(rows, {"kind": offsets}) == [4, 5, 3, 2, 1]


@pytest.mark.usefixtures("offsets")
def test_a_kind_has_one_judge() -> None:
    with pytest.raises(ValueError, match="two judges of 'offsets'"):
        judge("offsets")(lambda *_: None)


def test_a_kind_without_a_judge_is_an_error() -> None:
    with pytest.raises(UnknownName, match="no judge of 'nothing'"):
        judged((), {"kind": "nothing"})
