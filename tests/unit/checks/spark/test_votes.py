"""The change that explains most of an entity's differences names the cause; of two that explain
as many, the more particular one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slicewise.checks.compare.causes import _Candidate, _Change, _votes
from slicewise.checks.model import Cause
from slicewise.checks.recompute.questions import TOKEN, Part, WindowOf
from slicewise.windows.durations import HOUR_US, MINUTE_US

EDGE_US = 10 * HOUR_US - 2 * MINUTE_US
EXPIRY = _Change(Cause.EXPIRY, (TOKEN, 10, 0))
MOVED = _Change(Cause.BOUNDARY, ("start", 0, MINUTE_US))
SLICE = Part(EDGE_US, EDGE_US + MINUTE_US)


def winner(explained: Sequence[tuple[_Change, int]], *, edge: bool = True) -> Cause:
    """The cause of the first difference. explained: the changes in the order they were tried, and
    how many differences, from the first, each of them explains."""
    window = WindowOf(0, 0, TOKEN, EDGE_US, EDGE_US + HOUR_US)
    candidates = {
        i: [_Candidate(i, change, window, edge) for change, n in explained if i < n]
        for i in range(max(n for _, n in explained))
    }
    votes = _votes(list(candidates), candidates)
    return max(candidates[0], key=lambda candidate: votes[candidate.change]).change.cause


@pytest.mark.parametrize("in_turn", [1, -1])
def test_a_bound_moved_by_a_slice_is_told_from_a_window_cut_at_an_hour_by_what_longer_windows_lack(
    in_turn: int,
) -> None:
    """.. 9:58 edge | 9:59 nothing | 10:00 ..: of a window from 9:58 both leave the same."""
    assert winner([(EXPIRY, 5), (MOVED, 5)][::in_turn]) is Cause.BOUNDARY
    assert winner([(EXPIRY, 6), (MOVED, 5)][::in_turn]) is Cause.EXPIRY


@pytest.mark.parametrize("in_turn", [1, -1])
def test_what_is_gone_was_moved_where_it_is_at_the_edge_of_every_window_that_lacks_it(
    in_turn: int,
) -> None:
    gone = [(_Change(Cause.DROPPED, SLICE), 5), (_Change(Cause.BOUNDARY, SLICE), 5)][::in_turn]
    assert winner(gone) is Cause.BOUNDARY
    assert winner(gone, edge=False) is Cause.DROPPED


@pytest.mark.parametrize("in_turn", [1, -1])
def test_a_change_to_the_question_is_more_particular_than_one_of_a_part(in_turn: int) -> None:
    assert winner([(_Change(Cause.DROPPED, SLICE), 5), (EXPIRY, 5)][::in_turn]) is Cause.EXPIRY
