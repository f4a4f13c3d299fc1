"""Parts that a store may have lost, kept or doubled: bounded by offsets and archives, and as large
as the count says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from slicewise.checks.compare.hypotheses import Hypothesis, is_rounded
from slicewise.checks.compare.parts import MOST_PARTS, Candidate, candidates
from slicewise.checks.model import Cause
from slicewise.checks.recompute.questions import TOKEN, Part, StoredSlice, WindowOf
from slicewise.checks.values import canonical
from slicewise.windows.durations import HOUR_US, MINUTE_US

TOPIC = "5" * 32
START, END = 10 * HOUR_US, 12 * HOUR_US
WINDOW = WindowOf(0, 0, TOKEN, START, END)


def stored(
    number: int,
    offsets: list[int],
    partition: int = 0,
    archive_version: int = 1,
    *,
    late: bool = False,
) -> StoredSlice:
    return StoredSlice(number, TOPIC, partition, archive_version, late, offsets, len(offsets))


def of(cause: Cause, actual: list[Candidate]) -> list[Part]:
    return [source_freshness.part for source_freshness in actual if source_freshness.cause is cause]


def slices(actual: list[Candidate]) -> list[tuple[Cause, int | None, int | None, int]]:
    return [
        (candidate.cause, candidate.part.first, candidate.part.last, candidate.times)
        for candidate in actual
        if candidate.part.first is not None
    ]


def test_what_stood_twice_before_more_came_is_a_slice_up_to_some_event() -> None:
    """Slice 650 holds offsets 3, 5, 8 and 9; the first three stand twice."""
    result = list(candidates(WINDOW, [stored(650, [3, 5, 8, 9])], 3, MINUTE_US))
    assert slices(result) == [(Cause.DOUBLED, 3, 8, 2)]


def test_a_running_partial_begins_where_an_archive_ended() -> None:
    """Archive 1 had 3 and 5, which were compacted; of what came since, 8 and 9, only 8 was
    there."""
    result = list(
        candidates(
            WINDOW, [stored(650, [3, 5]), stored(650, [8, 9], archive_version=2)], -1, MINUTE_US
        )
    )
    firsts = [(first, last) for cause, first, last, _ in slices(result) if cause is Cause.DROPPED]
    assert firsts == [(3, 3), (8, 8)]


def test_only_parts_as_large_as_the_count_says_are_tried_and_none_where_it_agrees() -> None:
    all_of_it = [stored(650, [3, 5]), stored(651, [6, 7, 8]), stored(652, [1, 2], partition=1)]
    for added in (1, 2, 3, -1, -2, -3):
        sizes = {candidate.times for candidate in candidates(WINDOW, all_of_it, added, MINUTE_US)}
        assert sizes == ({2} if added > 0 else {0})
    assert not list(candidates(WINDOW, all_of_it, 0, MINUTE_US))
    assert not list(candidates(WINDOW, all_of_it, 8, MINUTE_US))


def test_a_part_of_a_slice_outside_was_moved_or_stands_twice() -> None:
    number = START // MINUTE_US - 7
    result = list(candidates(WINDOW, [stored(number, [3, 5])], 2, MINUTE_US))
    assert slices(result) == [(Cause.BOUNDARY, 3, 5, 2), (Cause.DOUBLED, 3, 5, 2)]
    assert all(candidate.edge for candidate in result if candidate.cause is Cause.BOUNDARY)
    assert not list(candidates(WINDOW, [stored(START // MINUTE_US - 61, [3, 5])], 2, MINUTE_US)), (
        "too far away"
    )


@pytest.mark.parametrize(("number", "edge"), [(600, True), (650, False), (719, True)])
def test_what_a_window_lacks_at_its_edge_may_have_been_moved(number: int, edge: bool) -> None:
    results = [
        candidate
        for candidate in candidates(WINDOW, [stored(number, [3])], -1, MINUTE_US)
        if candidate.part.first is not None
    ]
    assert [(candidate.cause, candidate.edge) for candidate in results] == [
        (Cause.DROPPED, edge),
        (Cause.BOUNDARY, edge),
    ]


def test_what_expired_or_came_late_leaves_what_came_after_the_archive() -> None:
    """Hour 10: 4 events of archive 1, two of them late; one more of archive 2 stands beside what
    was compacted."""
    own = [
        stored(610, [1, 2]),
        stored(611, [3, 4], late=True),
        stored(612, [9], archive_version=2, late=True),
    ]
    lost = list(candidates(WINDOW, own, -4, MINUTE_US))
    assert of(Cause.EXPIRY, lost) == [Part(0, 11 * HOUR_US, to_version=1)]
    late = of(Cause.LATE, list(candidates(WINDOW, own, -2, MINUTE_US)))
    assert {(part.to_version, part.late) for part in late} == {(1, True)}


def test_a_stale_hour_lacks_what_archives_brought_up_to_the_one_that_it_was_compacted_with() -> (
    None
):
    """Archives 1, 2 and 3 brought 1, 2 and 3 events; compacted with 2, and put back as with 1."""
    own = [
        stored(610, [1]),
        stored(611, [2, 3], archive_version=2),
        stored(612, [4, 5, 6], archive_version=3),
    ]
    result = of(Cause.STALE, list(candidates(WINDOW, own, -2, MINUTE_US)))
    assert result == [Part(10 * HOUR_US, 11 * HOUR_US, after_version=1, to_version=2)]


def test_without_a_count_the_newest_parts_are_tried_and_no_more() -> None:
    own = [stored(number, [10 * number + n for n in range(10)]) for number in range(719, 600, -1)]
    result = list(candidates(WINDOW, own, None, MINUTE_US))
    by_cause: Mapping[Cause, int] = {cause: len(of(cause, result)) for cause in Cause}
    assert by_cause[Cause.DROPPED] <= 2 * MOST_PARTS
    whole = [part for part in of(Cause.DROPPED, result) if part.first is not None][: len(own)]
    assert [(part.first, part.last) for part in whole] == [
        (stored_slice.offsets[0], stored_slice.offsets[-1]) for stored_slice in own
    ]


@pytest.mark.parametrize(
    ("offline", "greatest", "rounded"),
    [(5.0000000000000009, 5.0, True), (5.1, 5.0, False), (math.inf, math.inf, False)],
)
def test_what_is_far_from_what_is_infinite_was_not_rounded(
    offline: float, greatest: float, rounded: bool
) -> None:
    row = SimpleNamespace(online=canonical(5.0), offline=canonical(offline))
    hypothesis = cast(Hypothesis, SimpleNamespace(row=row, aggregate=SimpleNamespace(kind="sum")))
    assert is_rounded(hypothesis, [1.0, greatest, 3]) is rounded
