"""Every kind of window is one class with its own fields alone, stored as the fields of all."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import Any, get_args

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.windows.bounds import Mode
from slicewise.windows.durations import HOUR_US, MINUTE_US
from slicewise.windows.exact_range import ExactRange
from slicewise.windows.kinds import KINDS, as_window
from slicewise.windows.lifetime import Lifetime
from slicewise.windows.rows import Rows
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding
from slicewise.windows.tumbling import Tumbling
from slicewise.windows.window import Kind, Window

EXAMPLES: list[Window] = [
    sw.sliding("24h"),
    sw.sliding("1h", offset="1w"),
    sw.tumbling("1h"),
    sw.tumbling("1h", open=True, offset="90m"),
    sw.hopping("1h", every="10m"),
    sw.hopping("3h", every="2h", open=True, offset="1d"),
    sw.session("30m", max_length="1d"),
    sw.session("30m", max_length="24h", offset="1h"),
    sw.exact_range("1h"),
    sw.exact_range("90m", closed="neither", offset="1d"),
    sw.rows(5),
    sw.rows(10_000, offset="1d"),
    sw.lifetime(),
    sw.lifetime(offset="24h"),
]
ONLY_ONE: dict[type[Window], set[str]] = {
    Sliding: {"length_us"},
    Tumbling: {"length_us", "open"},
    Session: {"length_us", "gap_us"},
    ExactRange: {"length_us", "closed"},
    Rows: {"rows"},
    Lifetime: set(),
}
MODES: tuple[Mode, ...] = get_args(Mode)


def test_a_kind_is_one_class() -> None:
    assert sorted(kind.kind for kind in KINDS) == sorted(get_args(Kind))
    assert {type(example) for example in EXAMPLES} == set(KINDS)


@pytest.mark.parametrize(
    ("made", "names"), ONLY_ONE.items(), ids=lambda case: getattr(case, "__name__", "")
)
def test_a_class_has_no_field_of_another_kind(made: type[Window], names: set[str]) -> None:
    assert {own.name for own in fields(made)} == {"label", "offset_us", *names}


@pytest.mark.parametrize("window", EXAMPLES, ids=Window.column_suffix)
def test_a_window_of_its_stored_fields_is_the_same(window: Window) -> None:
    again = Window(**window.to_json())
    assert (again, type(again), hash(again), repr(again)) == (
        window,
        type(window),
        hash(window),
        repr(window),
    )


@pytest.mark.parametrize("window", EXAMPLES, ids=Window.column_suffix)
def test_what_is_written_of_a_window_makes_it_again(window: Window) -> None:
    assert as_window(eval(window.as_python(), {"sw": sw})).column_suffix() == window.column_suffix()


@pytest.mark.parametrize("window", EXAMPLES, ids=Window.column_suffix)
def test_a_copy_of_a_window_is_equal(window: Window) -> None:
    assert copy.copy(window) == window == pickle.loads(pickle.dumps(window))


@pytest.mark.parametrize("window", EXAMPLES, ids=Window.column_suffix)
def test_every_kind_answers_every_question(window: Window) -> None:
    t = 1_767_261_623_000_001
    for mode in MODES:
        start, end = window.bounds(mode, t, MINUTE_US)
        assert start <= end
        assert isinstance(window.holds_end(mode), bool)
    assert window.resolution(MINUTE_US) > 0
    assert window.ends_every(MINUTE_US) > 0
    assert window.reach_us(MINUTE_US) >= window.offset_us
    assert window.earliest_at(t, MINUTE_US) >= t
    assert min(window.length_us, window.grain_us, window.most_rows, window.session_gap_us) >= 0
    yes_or_no = window.by_events, window.unbounded, window.reads_five_days, window.ends_complete
    assert {type(answer) for answer in yes_or_no} == {bool}


def test_what_was_stored_before_offsets_sessions_and_exact_windows_is_read() -> None:
    assert Window(kind="sliding", length_us=HOUR_US, hop_us=0, open=False, label="60m") == Sliding(
        HOUR_US, label="60m"
    )


@pytest.mark.parametrize(
    "stray",
    [{"hop_us": 1}, {"open": True}, {"closed": "left"}, {"rows": 1}, {"gap_us": 1}, {"open": 0}],
)
def test_a_stored_field_that_the_kind_does_not_have_is_refused(stray: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="is no window"):
        Window("sliding", HOUR_US, **stray)
    with pytest.raises(TypeError):
        Sliding(HOUR_US, **stray)
