"""An archive begins at the last one's offset vector and skips no offset in silence, however many
run at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import DataLoss
from slicewise.features.plan.unit import Source
from slicewise.lifecycle.archiving import (
    Missing,
    accepted_gap_of,
    loss,
    next_extent,
    refuse_lost_end,
)
from slicewise.offsets.vector import OffsetVector

TOPIC, OTHER = "a" * 32, "b" * 32
NOTHING = OffsetVector()


def offset_vector(*offsets: int, topic: str = TOPIC) -> OffsetVector:
    return OffsetVector({(topic, partition): offset for partition, offset in enumerate(offsets)})


def test_an_archive_goes_from_the_offset_vector_to_the_goal() -> None:
    extent = next_extent(offset_vector(3, 5), NOTHING, offset_vector(10, 5), (), 100)
    assert (extent.start, extent.end, extent.offsets) == ({0: 3, 1: 5}, {0: 10, 1: 5}, 7)


def test_a_partition_that_was_added_begins_at_its_first_offset() -> None:
    assert next_extent(offset_vector(3), NOTHING, offset_vector(3, 4), (), 100).start == {
        0: 3,
        1: 0,
    }


def test_where_another_run_has_archived_beyond_the_goal_nothing_is_left() -> None:
    extent = next_extent(offset_vector(20, 20), NOTHING, offset_vector(10, 30), (), 100)
    assert (extent.end, extent.offsets) == ({0: 20, 1: 30}, 10)
    assert next_extent(offset_vector(20, 30), NOTHING, offset_vector(10, 30), (), 100).offsets == 0


@given(
    goal=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    more=st.lists(st.integers(0, 90), min_size=5, max_size=5),
    most=st.integers(1, 40),
)
def test_archiving_ends_with_all_up_to_the_goal_whatever_others_archive(
    goal: list[int], more: list[int], most: int
) -> None:
    archived, wanted, runs = NOTHING, offset_vector(*goal), 0
    while (extent := next_extent(archived, NOTHING, wanted, (), most)).offsets:
        assert extent.offsets > 0
        archived = archived.join(
            OffsetVector({(TOPIC, p): offset for p, offset in extent.end.items()})
        )
        if runs == 0:  # another run commits once in between, from a later end of the log
            archived = archived.join(offset_vector(*more[: len(goal)]))
        runs += 1
    assert archived.dominates(wanted)
    assert runs <= sum(goal)


def test_offsets_that_are_gone_behind_the_offset_vector_are_refused() -> None:
    with pytest.raises(DataLoss, match="4 offsets are gone"):
        next_extent(offset_vector(3), offset_vector(7), offset_vector(10), (), 100)


def test_a_first_archive_of_a_log_that_nobody_applied_begins_where_the_log_begins() -> None:
    assert next_extent(NOTHING, offset_vector(7), offset_vector(10), (), 100).start == {0: 7}
    assert next_extent(
        NOTHING, offset_vector(7), offset_vector(10), (offset_vector(7), offset_vector(9)), 100
    ).start == {0: 7}
    assert next_extent(
        offset_vector(4, topic=OTHER), offset_vector(7), offset_vector(10), (offset_vector(7),), 100
    ).start == {0: 7}


def test_a_first_archive_that_lacks_what_the_stream_has_applied_is_refused() -> None:
    # the first unit began at 2, and has events in Redis that its hours would be rid of
    with pytest.raises(DataLoss, match="5 offsets are gone"):
        next_extent(
            NOTHING, offset_vector(7), offset_vector(10), (offset_vector(9), offset_vector(2)), 100
        )


@given(
    archived=st.lists(st.integers(0, 9), max_size=4),
    earliest=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    starts=st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), max_size=2),
)
def test_a_loss_is_what_an_archive_refuses_and_accepted_it_goes_on_from_there(
    archived: list[int], earliest: list[int], starts: list[list[int]]
) -> None:
    archived_now, begins, goal = (
        offset_vector(*archived),
        offset_vector(*earliest),
        offset_vector(10, 10, 10, 10),
    )
    applied = [offset_vector(*start) for start in starts]
    lost = loss(archived_now, begins, goal, applied)
    if not lost.missing:
        next_extent(archived_now, begins, goal, applied, 1_000)
        assert lost.offset_vector == archived_now
        return
    with pytest.raises(DataLoss, match="slicewise hole"):
        next_extent(archived_now, begins, goal, applied, 1_000)
    extent = next_extent(lost.offset_vector, begins, goal, applied, 1_000)
    for gap in lost.missing:
        assert (
            gap.first
            < gap.end
            == extent.start[gap.topic_partition[1]]
            == begins.get(gap.topic_partition)
        )
    assert lost.offset_vector.dominates(archived_now)
    others = {
        topic_partition
        for topic_partition in goal
        if topic_partition not in {gap.topic_partition for gap in lost.missing}
    }
    for topic_partition in others:
        assert extent.start[topic_partition[1]] >= begins.get(topic_partition), (
            "nothing else is skipped"
        )
        assert extent.start[topic_partition[1]] == max(
            archived_now.get(topic_partition), begins.get(topic_partition)
        )


def test_a_loss_is_accepted_by_the_digest_of_exactly_what_is_lost() -> None:
    seen = loss(offset_vector(3), offset_vector(7), offset_vector(10), ())
    assert seen.missing == (Missing((TOPIC, 0), 3, 7),)
    assert seen.digest == loss(offset_vector(3), offset_vector(7), offset_vector(99), ()).digest, (
        "what comes later changes nothing"
    )
    assert seen.digest != loss(offset_vector(3), offset_vector(8), offset_vector(10), ()).digest


def test_the_times_of_an_accepted_gap_reach_as_far_as_lateness_and_clocks_allow() -> None:
    source = Source(
        name="plays",
        topic="plays",
        columns=(("t", "timestamp_us"),),
        timestamp="t",
        time_form="us",
        max_lateness_us=100,
        max_ahead_us=10,
    )
    lost = Missing((TOPIC, 0), 3, 7)
    accepted_gap = accepted_gap_of(source, lost, 1_000, 2_000, "ada", "because", 5_000)
    assert (accepted_gap.from_us, accepted_gap.until_us, accepted_gap.first, accepted_gap.end) == (
        900,
        2_011,
        3,
        7,
    )
    assert accepted_gap.touches(2_010, 3_000)
    assert not accepted_gap.touches(2_011, 3_000)
    assert accepted_gap.touches(0, 901)
    assert not accepted_gap.touches(0, 900)
    unordered = accepted_gap_of(source, lost, 2_000, 1_000, "ada", "because", 5_000)
    assert (unordered.from_us, unordered.until_us) == (900, 2_011)
    assert accepted_gap_of(source, lost, None, 2_000, "ada", "because", 5_000).from_us == 0, (
        "nothing bounds it"
    )


def test_a_log_that_ends_before_what_is_archived_is_refused() -> None:
    refuse_lost_end(offset_vector(5, 5), offset_vector(5, 9), TOPIC)
    refuse_lost_end(offset_vector(5, topic=OTHER), offset_vector(1), TOPIC)
    for latest in (offset_vector(4, 9), NOTHING):
        with pytest.raises(DataLoss, match="archived is up to 5"):
            refuse_lost_end(offset_vector(5, 5), latest, TOPIC)
