"""Values leave the service as their type says, and the earliest time named is the earliest."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.codec.plain import converter, json_safe
from slicewise.errors import BadRequest, DefinitionError
from slicewise.serving.answering.refusals import earliest_at
from slicewise.serving.answering.requests import instant, instant_text, instant_us
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.hopping import hopping
from slicewise.windows.kinds import as_window
from slicewise.windows.periodic import Periodic
from slicewise.windows.session import session
from slicewise.windows.sliding import sliding
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window
from tests.support.stores.units import StoreUnit


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(), max_size=5))
def test_doubles_come_back_bit_for_bit_from_json_and_what_json_lacks_is_text(
    numbers: list[float | None],
) -> None:
    result = converter(pa.float64())(pa.array(numbers, pa.float64()))
    text = msgspec.json.encode([json_safe(value) for value in result])
    for given_number, back in zip(numbers, json.loads(text), strict=True):
        if given_number is None:
            assert back is None
        elif math.isfinite(given_number):
            assert struct.pack("<d", back) == struct.pack("<d", given_number)
        else:
            wanted = (
                "NaN"
                if given_number != given_number
                else "Infinity"
                if given_number > 0
                else "-Infinity"
            )
            assert back == wanted


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (pa.int64(), [2**63 - 1, None, -(2**63)], [2**63 - 1, None, -(2**63)]),
        (pa.bool_(), [True, None], [True, None]),
        (pa.string(), ["zoë", None], ["zoë", None]),
        (pa.decimal128(5, 2), [Decimal("1.50"), None], ["1.50", None]),
        (pa.timestamp("us", "UTC"), [datetime(2013, 1, 1, tzinfo=UTC)], ["2013-01-01T00:00:00Z"]),
        (pa.list_(pa.int64()), [[1, 2], [], None], [[1, 2], [], None]),
        (pa.list_(pa.struct([("by", pa.decimal128(3, 1)), ("payload", pa.string())])),
         [[{"by": Decimal("1.0"), "payload": None}]], [[{"by": "1.0", "payload": None}]]),
    ],
)  # fmt: skip
def test_each_type_leaves_in_its_one_form(kind: Any, values: list[Any], wanted: list[Any]) -> None:
    assert converter(kind)(pa.array(values, kind)) == wanted


@settings(deadline=None)
@given(st.integers(0, 253_402_300_799_999_999))
def test_an_instant_comes_back_as_it_was(us: int) -> None:
    text = instant_text(us)
    assert instant_us(text) == us == instant_us(us)
    assert text == instant(us).replace(tzinfo=None).isoformat() + "Z"


@pytest.mark.parametrize("at", ["2013-01-01T00:00:00", "", "now", -1, True, 1 << 60, None, 1.5])
def test_what_is_no_instant_is_refused(at: Any) -> None:
    with pytest.raises(BadRequest, match="instant"):
        instant_us(at)


WINDOWS = [as_window("1h"), as_window("7d"), tumbling("1h"), tumbling("1d", open=True),
           hopping("2h", every="20m"), hopping("2h", every="20m", open=True),
           sliding("1h", offset="1d"), sliding("7d", offset="90m"), tumbling("1h", offset="90m"),
           tumbling("1d", open=True, offset="1h"), session("30m", max_length="1d"),
           session("30m", max_length="1d", offset="2h")]  # fmt: skip


@settings(deadline=None)
@given(st.sampled_from(WINDOWS), st.integers(100, 2_000_000), st.integers(0, 2 * DAY_US))
def test_the_earliest_at_is_the_first_whose_window_starts_no_earlier_than_what_is_kept(
    window: Window, kept_minutes: int, more: int
) -> None:
    kept = 30 * DAY_US + kept_minutes * MINUTE_US
    unit = StoreUnit(slice_us=MINUTE_US)
    earliest = earliest_at(
        cast(Any, unit), unit.feature("n", window, unit.layout.partials[0]), kept
    )

    def start(at: int) -> int:
        return window.bounds("at", at, MINUTE_US)[0]

    assert start(earliest) >= kept
    assert start(earliest + more) >= kept
    assert start(earliest - 1) < kept
    hop_us = window.hop_us if isinstance(window, Periodic) else 0
    assert earliest - kept <= window.length_us + window.offset_us + max(HOUR_US, hop_us) + DAY_US


@pytest.mark.parametrize(
    "wrong",
    [{"on_failure": "ignore"}, {"on_failure": "stale"}, {"max_staleness": "5m"},
     {"on_failure": "stale", "max_staleness": "soon"}],
)  # fmt: skip
def test_a_wrong_behaviour_on_failure_is_refused_where_it_is_written(wrong: dict[str, str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        sw.FeatureSet("churn", features=["a:b"], **cast(Any, wrong))
    assert "test_values.py" in str(caught.value.where)
