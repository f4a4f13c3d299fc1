"""Two versions are compared by what they answer, value by value, as bits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.cli.define._difference_page import page, picture
from slicewise.errors import BadRequest
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.training.versions.difference import (
    Difference,
    compared_refs,
    difference,
    equal_bits,
)
from tests.unit.training.world import view

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 1, -1, 2**62, None],
    pa.float64(): [0.0, -0.0, 1.5, math.inf, None],
    pa.string(): ["", "a", "é", None],
    pa.bool_(): [True, False, None],
    pa.list_(pa.int64()): [[], [1], [1, 2], None],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_equal_is_what_has_the_same_bits_or_is_nothing_in_both(
    kind: pa.DataType, data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(*[st.sampled_from(VALUES[kind])] * 2), max_size=8))
    first, second = (pa.array([pair[i] for pair in pairs], kind) for i in (0, 1))
    wanted = [repr(a) == repr(b) for a, b in pairs]
    assert equal_bits(first, second).tolist() == wanted


def table(then: list[object], now: list[object], kind: pa.DataType) -> pa.Table:
    return pa.table(
        {
            "user": [f"user {i}" for i in range(len(then))],
            "v:x": pa.array(then, kind),
            "v@2:x": pa.array(now, kind),
        }
    )


def test_what_changed_most_is_shown_first_and_what_is_nothing_is_counted() -> None:
    rows = table([1.0, 2.0, None, 4.0, 5.0], [1.0, 3.0, 7.0, 400.0, None], pa.float64())
    of = difference(rows, ["user"], "v", "v@2", "x")
    assert (of.rows, of.equal, of.changed, of.null_then, of.null_now) == (5, 1, 4, 1, 1)
    assert [example.entity["user"] for example in of.examples] == [
        "user 3",
        "user 2",
        "user 4",
        "user 1",
    ]
    assert of.index > 0
    texts = difference(table(["a", "b"], ["a", "c"], pa.string()), ["user"], "v", "v@2", "x")
    assert (texts.changed, texts.index, texts.then) == (1, 0.0, {})
    none = difference(table([], [], pa.int64()), ["user"], "v", "v@2", "x")
    assert (none.rows, none.changed, none.examples) == (0, 0, ())


def test_integers_beyond_those_of_doubles_are_compared() -> None:
    of = difference(table([2**60 + 1], [2**60 + 3], pa.int64()), ["user"], "v", "v@2", "x")
    assert (of.changed, of.examples[0].now) == (1, 2**60 + 3)


def test_a_page_has_a_picture_of_each_feature_of_numbers() -> None:
    columns = (
        difference(table([1, 2, 300], [1, 5, 7], pa.int64()), ["user"], "v", "v@2", "x"),
        difference(table(["<b>"], ["c"], pa.string()), ["user"], "v", "v@2", "x"),
    )
    drawn = picture(columns[0])
    assert drawn is not None
    assert sum(bar.part for bar in drawn.bars if bar.is_now) == pytest.approx(100)
    assert picture(columns[1]) is None
    of = Difference("v", "v@2", 0, 3, columns, ("gone_1h",), (), ())
    html = page(of)
    assert html.count("<svg") == 1
    assert "v alone has: gone_1h" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert json.dumps(of.to_json(), default=str)


def test_versions_of_one_view_alone_are_compared() -> None:
    views = [replace(view(["user"]), name=name) for name in ("listening", "hearing")]
    deployment = plan(Project.of("songs", views))
    columns, others = compared_refs(deployment, "listening", "listening@1")
    assert columns
    assert others == {"gone": (), "added": (), "retyped": ()}
    with pytest.raises(BadRequest, match="are two views"):
        compared_refs(deployment, "listening", "hearing")
