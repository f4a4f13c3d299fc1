"""An exact answer holds exactly the events between its bounds; each boundary has a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates.kernel.events import Rows
from slicewise.errors import CodecError
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import ListUnit
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.event_list import ListMerged, merge_list, plan_list
from slicewise.reading.exchange import NodeClaims, Stored
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.window import Window

TOPIC = "00112233445566778899aabbccddeeff"
Made = tuple[int, int, int]
"""(time, partition, offset); its value is 1000 · partition + offset."""

source = sw.KafkaSource(
    "s", schema={"u": "string", "v": "long", "t": "timestamp_us"}, timestamp="t", max_lateness="1d"
)


def unit_of(windows: Sequence[Window | str]) -> ListUnit:
    view = FeatureView(
        "view",
        source=source,
        entity=["u"],
        features=[sw.Feature("l", sw.last_k("v", k=9), windows)],
    )
    (unit,) = plan(Project.of("p", [view])).units
    assert isinstance(unit, ListUnit)
    return unit


def members(unit: ListUnit, events: Sequence[Made]) -> list[bytes]:
    n = len(events)
    rows = Rows(
        np.array([t for t, _, _ in events], np.int64),
        np.full(n, int(TOPIC[:16], 16), np.uint64),
        np.full(n, int(TOPIC[16:], 16), np.uint64),
        np.array([p for _, p, _ in events], np.int32),
        np.array([o for _, _, o in events], np.int64),
        {"v": pa.array([1000 * p + o for _, p, o in events], pa.int64())},
    )
    return unit.members.encode(rows)


def fetched(
    unit: ListUnit, events: Sequence[Made], ranges: Sequence[tuple[int, int, int]]
) -> list[list[bytes | None]]:
    """The members that a store gives for these ranges."""
    ordered = sorted(events)
    results: list[list[bytes | None]] = []
    for first, last, newest in ranges:
        inside = [e for e in ordered if first <= e[0] <= last]
        results.append([*members(unit, inside[::-1][:newest] if newest else inside)])
    return results


def answer(
    unit: ListUnit,
    events: Sequence[Made],
    t: int,
    low: Made | None = None,
    hot: Sequence[bytes] = (),
) -> tuple[ListMerged, dict[str, list[int]]]:
    wanted = plan_list(unit, unit.features, "at", t)
    mark = [] if low is None else [b"w", members(unit, [low])[0][:36]]
    kept = [e for e in events if low is None or e > low]
    stored = [Stored(0, None, [*mark, *hot], fetched(unit, kept, wanted.ranges))]
    merged = merge_list(wanted, stored, 1, OffsetVector())
    values: dict[str, list[int]] = {}
    if not merged.short:
        for i, feature in enumerate(unit.features):
            finished, where = merged.column(i)
            values[feature.column.removeprefix("l_")] = (
                finished.values.to_pylist()[where][0] or []
            )[::-1]
    return merged, values


def test_a_range_holds_both_its_ends_unless_it_says_otherwise() -> None:
    #  time      0 ......... 9 10 11 ......... 20 21
    #  offset                0  1  2            3  4      10 us long, read at 20
    events = [(t, 0, o) for o, t in enumerate((9, 10, 11, 20, 21))]
    windows: list[Window | str] = [
        sw.exact_range("10us", closed=c) for c in ("both", "left", "right", "neither")
    ]
    _, values = answer(unit_of(windows), events, 20)
    assert values == {
        "exact_10us": [1, 2, 3],
        "exact_10us_left": [1, 2],
        "exact_10us_right": [2, 3],
        "exact_10us_neither": [2],
    }


def test_of_equal_times_the_total_order_decides_which_are_the_last_rows() -> None:
    #  time         5                 5                 5       7
    #  identity  (0, 1)            (0, 2)            (1, 0)  (0, 3)      read at 5: the last two of three
    events = [(5, 0, 1), (5, 0, 2), (5, 1, 0), (7, 0, 3)]
    _, values = answer(unit_of([sw.rows(2), sw.rows(4)]), events, 5)
    assert values == {"rows_2": [2, 1000], "rows_4": [1, 2, 1000]}


def test_rows_and_ranges_of_one_list_are_answered_together() -> None:
    events = [(t, 0, t) for t in range(0, 100, 10)]
    _, values = answer(
        unit_of([sw.exact_range("25us"), sw.rows(3), sw.exact_range("10us")]), events, 55
    )
    assert values == {"exact_25us": [30, 40, 50], "rows_3": [30, 40, 50], "exact_10us": [50]}


def test_windows_that_are_shifted_back_are_those_of_then() -> None:
    #  time  0 10 20 30 40 50 60 70 80 90      read at 95; 50 us before is 45
    events = [(t, 0, t) for t in range(0, 100, 10)]
    windows: list[Window | str] = [
        sw.exact_range("25us"),
        sw.exact_range("25us", offset="50us"),
        sw.rows(2),
        sw.rows(3, offset="50us"),
    ]
    unit = unit_of(windows)
    _, values = answer(unit, events, 95)
    assert values == {
        "exact_25us": [70, 80, 90],
        "exact_25us_offset_50us": [20, 30, 40],
        "rows_2": [80, 90],
        "rows_3_offset_50us": [20, 30, 40],
    }
    assert unit.event_list.range_us == 75 + 86_400_000_000
    assert unit.event_list.late_us == 50 + 86_400_000_000
    ranges = plan_list(unit, unit.features, "at", 95).ranges
    assert [(first, last) for first, last, newest in ranges if not newest] == [
        (20, 45),
        (70, 95),
    ], "and not between"


def test_a_window_of_time_is_refused_from_the_low_water_mark_on() -> None:
    #  trimmed up to 10 |   start of the window at 10: its first event may be gone; at 11: nothing of it is
    unit, events = unit_of([sw.exact_range("10us")]), [(t, 0, t) for t in range(30)]
    merged, _ = answer(unit, events, 20, low=(10, 0, 10))
    assert [(s.entity, s.span, s.low_us) for s in merged.short] == [(0, 0, 10)]
    assert merged.finished == ()
    _, values = answer(unit, events, 21, low=(10, 0, 10))
    assert values["exact_10us"] == list(range(11, 22))[-9:]


def test_rows_are_whole_while_all_of_them_lie_above_the_low_water_mark() -> None:
    #  all at time 5; trimmed (0, 0) and (0, 1); three are left
    unit, events = unit_of([sw.rows(3)]), [(5, 0, o) for o in range(5)]
    _, values = answer(unit, events, 9, low=(5, 0, 1))
    assert values["rows_3"] == [2, 3, 4]
    merged, _ = answer(unit, events, 9, low=(5, 0, 2))
    assert [(s.entity, s.low_us) for s in merged.short] == [(0, 5)]
    _, values = answer(unit, events[:2], 9)
    assert values["rows_3"] == [0, 1], "fewer rows than asked for, and none was trimmed"


def test_one_partitions_mark_counts_for_the_rows_of_all() -> None:
    # a per-partition list: partition 1 lost what came before 50; the three last rows of both reach
    # back to 40
    unit = unit_of([sw.rows(3)])
    wanted = plan_list(unit, unit.features, "live", 100)
    zero, one = [(40, 0, 0), (70, 0, 1)], [(60, 1, 9)]
    parts = [
        Stored(0, 0, [], fetched(unit, zero, wanted.ranges)),
        Stored(0, 1, [], fetched(unit, one, wanted.ranges)),
    ]
    assert not merge_list(wanted, parts, 1, OffsetVector()).short
    cut = parts[1]._replace(hot=[b"w", members(unit, [(50, 1, 8)])[0][:36]])
    assert merge_list(wanted, [parts[0], cut], 1, OffsetVector()).short
    late = parts[1]._replace(hot=[b"w", members(unit, [(39, 1, 8)])[0][:36]])
    assert not merge_list(wanted, [parts[0], late], 1, OffsetVector()).short


def test_applied_offsets_beyond_the_committed_are_the_base_and_the_token_says_bounds_and_offset_vector() -> (
    None
):
    unit = unit_of([sw.exact_range("10us"), sw.rows(3)])
    applied_offset = [b"l:%s:1" % TOPIC.encode(), b"41"]
    merged, _ = answer(unit, [(5, 1, 41)], 20, hot=applied_offset)
    token = tokens.decode(merged.token(0))
    assert token.base == OffsetVector({(TOPIC, 1): 42})
    assert token.bounds == {"l_exact_10us": (10, 21), "l_rows_3": (EARLIEST_US, 21)}
    assert (token.unit, token.definition) == (unit.storage_fingerprint, unit.definition_fingerprint)


def test_lists_of_several_nodes_have_each_its_own_committed_offsets() -> None:
    unit = unit_of([sw.rows(3)])
    wanted = plan_list(unit, unit.features, "live", 100)
    claims = [
        NodeClaims(OffsetVector({(TOPIC, 0): n, (TOPIC, 1): n}), OffsetVector(), {}) for n in (9, 4)
    ]
    rows = [fetched(unit, [(40, p, 0)], wanted.ranges) for p in (0, 1)]
    apart = [Stored(e, None, [], rows[e], own) for e, own in enumerate(claims)]
    assert merge_list(wanted, apart, 2, OffsetVector()).base == tuple(
        own.committed for own in claims
    )
    per_partition = [Stored(0, p, [], rows[p], own) for p, own in enumerate(claims)]
    assert merge_list(wanted, per_partition, 1, OffsetVector()).base == (
        OffsetVector({(TOPIC, 0): 9, (TOPIC, 1): 4}),
    )


def test_an_entity_without_a_list_has_no_events() -> None:
    unit = unit_of([sw.exact_range("10us"), sw.rows(3)])
    _, values = answer(unit, [], 20)
    assert values == {"exact_10us": [], "rows_3": []}


def test_a_damaged_member_is_refused() -> None:
    unit = unit_of([sw.rows(3)])
    (good,) = members(unit, [(5, 0, 1)])
    wanted = plan_list(unit, unit.features, "live", 100)
    for bad in (good[:-1], good[:-5] + bytes([good[-5] ^ 1]) + good[-4:], b"", good + b"\0"):
        with pytest.raises(CodecError):
            merge_list(wanted, [Stored(0, None, [], [[bad]])], 1, OffsetVector())


WINDOWS = [
    sw.exact_range("7us"),
    sw.exact_range("7us", closed="left"),
    sw.exact_range("30us"),
    sw.rows(1),
    sw.rows(4),
]
LATER = [sw.exact_range("5us", offset="20us"), sw.rows(2, offset="9us")]
made = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 20)), max_size=25, unique=True
)


@settings(max_examples=60, deadline=None)
@given(events=made, t=st.integers(0, 45), lows=st.integers(-1, 10))
def test_every_answer_is_that_of_brute_force_or_is_refused(
    events: list[Made], t: int, lows: int
) -> None:
    events = sorted({(p, o): (time, p, o) for time, p, o in events}.values())
    low = events[lows] if 0 <= lows < len(events) else None
    merged, values = answer(unit_of([*WINDOWS, *LATER]), events, t, low)
    if merged.short:
        assert low is not None
        return

    def want(inside: list[Made]) -> list[int]:
        return [1000 * p + o for _, p, o in inside][-9:]

    expected: dict[str, Any] = {
        "exact_7us": want([e for e in events if t - 7 <= e[0] <= t]),
        "exact_7us_left": want([e for e in events if t - 7 <= e[0] < t]),
        "exact_30us": want([e for e in events if t - 30 <= e[0] <= t]),
        "rows_1": want([e for e in events if e[0] <= t][-1:]),
        "rows_4": want([e for e in events if e[0] <= t][-4:]),
        "exact_5us_offset_20us": want([e for e in events if t - 25 <= e[0] <= t - 20]),
        "rows_2_offset_9us": want([e for e in events if e[0] <= t - 9][-2:]),
    }
    assert values == expected
