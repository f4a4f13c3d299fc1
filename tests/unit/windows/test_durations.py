"""Durations are read from text and written as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import DefinitionError
from slicewise.windows.durations import (
    DAY_US,
    MINUTE_US,
    format_duration,
    format_span,
    parse_duration,
)

M, D = MINUTE_US, DAY_US


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("100ms", 100_000),
        ("1s", 10**6),
        ("10m", 10 * M),
        ("1h30m", 90 * M),
        ("2w", 14 * D),
        ("7us", 7),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "m",
        "10 m",
        "-1m",
        "1.5h",
        "0s",
        "1m1h",
        "1h1h",
        "10M",
        "10min",
        "٣m",
        "10m\n",
        "99999d",
        5,
        None,
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(DefinitionError, match="10m, 7d"):
        parse_duration(text)  # type: ignore[arg-type]  # the mistake


@given(st.integers(1, 10_000 * D))
def test_a_formatted_duration_reads_back(us: int) -> None:
    assert parse_duration(format_duration(us)) == us


@given(st.integers(1, 10_000 * D))
def test_a_span_for_reading_is_the_same_duration(us: int) -> None:
    assert parse_duration(format_span(us)) == us
