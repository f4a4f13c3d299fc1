"""A session is where the drawings say: events less than the gap apart are of one; the last counts
while the gap lasts.

Gap 10m, slices of 1m, times in minutes of an hour; `o` an event, `(…)` the session that is
answered.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import DefinitionError
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from slicewise.windows.segments import slice_segments
from slicewise.windows.session import session
from slicewise.windows.sessions import open_sessions, session_heads
from slicewise.windows.slices import check_slice, default_slice

M, H = MINUTE_US, HOUR_US
GAP = 10 * M
Span = tuple[int, int]


def open_spans(spans: list[Span], end: int, gap: int = GAP) -> list[Span]:
    """The spans of the open session, in their order."""
    first, last = (np.array([span[i] for span in spans], np.int64) for i in (0, 1))
    n = len(spans)
    in_latest, begun = open_sessions(
        np.zeros(n, np.int64), first, last, np.full(n, end), np.full(n, gap)
    )
    chosen = [span for span, is_in_latest in zip(spans, in_latest, strict=True) if is_in_latest]
    assert {int(b) for b in begun[in_latest]} == ({min(f for f, _ in chosen)} if chosen else set())
    return chosen


def at(*minutes: float) -> list[Span]:
    return [(int(m * M), int(m * M)) for m in minutes]


def test_events_less_than_the_gap_apart_are_of_one_session() -> None:
    #  0    9    18         end 20
    # (o----o----o           |)
    assert open_spans(at(0, 9, 18), 20 * M) == at(0, 9, 18)


def test_events_exactly_the_gap_apart_are_of_two() -> None:
    #  0    10 ... 19       end 20
    #  o    (o----o          |)      10 - 0 is the gap: it has passed
    assert open_spans(at(0, 10, 19), 20 * M) == at(10, 19)
    one_less = [(1, 1), *at(10, 19)]
    assert open_spans(one_less, 20 * M) == one_less


def test_a_session_is_open_until_the_gap_has_passed_since_its_last_event() -> None:
    #  0    5        end 15 - 1us: still open;  end 15: over
    # (o----o        |)
    assert open_spans(at(0, 5), 15 * M - 1) == at(0, 5)
    assert open_spans(at(0, 5), 15 * M) == []


def test_an_earlier_session_is_not_answered_when_the_last_one_is_over() -> None:
    #  0   1         20          end 30
    #  o---o          o           |       both are over
    assert open_spans(at(0, 1, 20), 30 * M) == []


def test_spans_of_several_partitions_overlap_and_hold_together() -> None:
    #  partition 0: [0 ------------- 12]
    #  partition 1:     [2 - 4]          [21 - 22]   end 25
    #  21 is 9 after 12, though 17 after 4
    spans = [(0, 12 * M), (2 * M, 4 * M), (21 * M, 22 * M)]
    assert open_spans(spans, 25 * M) == spans
    assert open_spans([(0, 11 * M), (2 * M, 4 * M), (21 * M, 22 * M)], 25 * M) == [(21 * M, 22 * M)]


def test_no_events_have_no_session() -> None:
    assert open_spans([], 10 * M) == []


def test_keys_do_not_meet() -> None:
    # two users a minute apart: each has a session of its own
    key = np.array([7, 3, 7, 3])
    time = np.array([0, M, 30 * M, 2 * M])
    in_latest, begun = open_sessions(key, time, time, np.full(4, 31 * M), np.full(4, GAP))
    assert in_latest.tolist() == [False, False, True, False]
    assert begun.tolist() == [0, M, 30 * M, M]


def walk(times: list[int], end: int, gap: int) -> list[int]:
    """By brute force: back from the latest event, while the next one is less than the gap away."""
    left = sorted(times)
    if not left or end - left[-1] >= gap:
        return []
    taken = [left.pop()]
    while left and taken[-1] - left[-1] < gap:
        taken.append(left.pop())
    return sorted(taken)


moments = st.lists(st.integers(0, 200), max_size=30)


@given(
    st.dictionaries(st.integers(0, 3), moments, max_size=3), st.integers(0, 220), st.integers(1, 40)
)
def test_the_walk_is_that_of_brute_force_for_every_key(
    of: dict[int, list[int]], end: int, gap: int
) -> None:
    of = {key: [t for t in times if t < end] for key, times in of.items()}
    pairs = [(key, t) for key, times in of.items() for t in times]
    key, time = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    in_latest, _ = open_sessions(key, time, time, np.full(len(key), end), np.full(len(key), gap))
    for group, times in of.items():
        own = key == group
        assert sorted(time[own & in_latest].tolist()) == walk(times, end, gap)


@given(moments, st.integers(1, 200), st.integers(0, 3), st.integers(1, 40))
def test_slices_at_most_the_gap_long_lose_nothing(
    times: list[int], end: int, cut: int, gap: int
) -> None:
    # whatever the slice, as long as it is at most the gap: spans of slices find the events' session
    slice_us = max(1, gap >> cut)
    times = [t for t in times if t < end]
    by_slice: dict[int, list[int]] = {}
    for t in times:
        by_slice.setdefault(t // slice_us, []).append(t)
    spans = [(min(some), max(some)) for some in by_slice.values()]
    kept = {span[0] // slice_us for span in open_spans(spans, end, gap)}
    assert sorted(t for t in times if t // slice_us in kept) == walk(times, end, gap)


@given(st.dictionaries(st.integers(0, 3), moments, max_size=3), st.integers(1, 40))
def test_the_heads_of_all_sessions_are_those_of_the_walk(
    of: dict[int, list[int]], gap: int
) -> None:
    pairs = sorted((key, t) for key, times in of.items() for t in times)
    key, time = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    heads = session_heads(key, time, gap)
    for i, (group, t) in enumerate(pairs):
        up_to = [at for k, at in pairs if k == group and at <= t]
        assert pairs[heads[i]] == (group, walk(up_to, t, gap)[0])


# ------------------------------------------------------------- the definition
def test_a_column_is_named_by_the_gap() -> None:
    assert session("30m", max_length="1d").column_suffix() == "session_30m"
    assert session("30m", max_length="1d", offset="1h").column_suffix() == "session_30m_offset_1h"


def test_a_session_is_looked_for_as_far_back_as_it_may_last() -> None:
    # slices of 1m, t = 10:00:20:  [09:00 --- max_length 1h --- 10:00:00 | 10:01:00)
    window = session("10m", max_length="1h")
    t = 19_000 * DAY_US + 10 * H + 20 * SECOND_US
    assert window.bounds("at", t, M) == (t - 20 * SECOND_US - H, t - 20 * SECOND_US)
    assert window.bounds("live", t, M) == (t + 40 * SECOND_US - H, t + 40 * SECOND_US)
    assert window.bounds("event_time", t, M) == (t - 20 * SECOND_US - H, t)


def test_the_slice_is_at_most_a_tenth_of_the_gap() -> None:
    assert default_slice([session("30m", max_length="1d")]) == M
    assert default_slice([session("10s", max_length="1h")]) == SECOND_US
    # as long as the gap: declared, and just in
    check_slice(10 * M, [session("10m", max_length="1h")])


def test_a_gap_shorter_than_the_slice_is_refused() -> None:
    with pytest.raises(
        DefinitionError, match="the gap of session_5m is shorter than the slice 10m"
    ) as refused:
        check_slice(10 * M, [session("5m", max_length="1h")])
    assert refused.value.next_step == "lengthen the gap, or declare a shorter slice"


def test_a_session_shorter_than_its_gap_is_refused() -> None:
    with pytest.raises(DefinitionError, match="ends before its gap"):
        session("1h", max_length="30m")


def test_a_session_over_too_many_slices_is_refused() -> None:
    session("30m", max_length="10000m").check_slice(M)
    with pytest.raises(DefinitionError, match="which are 14400 slices of 1m; a read looks at each"):
        session("30m", max_length="10d").check_slice(M)


@given(st.integers(-300, 300), st.integers(0, 400))
def test_slice_segments_tile_the_interval_by_slices_alone(first: int, n: int) -> None:
    start, end = 19_000 * DAY_US + first * M, 19_000 * DAY_US + (first + n) * M
    parts = slice_segments(start, end, M)
    assert (list(parts.days), parts.hours) == ([], ())
    edges = [(part.start_us, part.end_us) for part in parts.ranges]
    assert all(
        a // H == (b - 1) // H and part.level_us == M
        for (a, b), part in zip(edges, parts.ranges, strict=True)
    )
    assert [a for a, _ in edges] == [start, *[b for _, b in edges]][: len(edges)]
    assert (edges[-1][1] if edges else start) == end
