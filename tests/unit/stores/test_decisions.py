"""The rules by which the online store is written, each at its boundary."""

from __future__ import annotations

import numpy as np
import pytest

from slicewise.errors import ClockOff, GapRefused, StoreUnavailable
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision, Running
from slicewise.windows.durations import HOUR_US
from tests.support.stores.stored import offset_vector, topic_partition


def part(first: int, last: int, partition: int = 0) -> Running:
    return Running(b"r:%d:%d" % (first, last), topic_partition(partition), first, last)


def test_a_row_is_kept_beyond_the_last_applied_and_from_the_floor_on() -> None:
    #  offsets  3 4 5 6 7      last 4, floor 6: 5 is compacted, 6 is the first to come in
    offsets = np.arange(3, 8)
    kept = decisions.rows_to_keep(offsets, np.full(5, 4), np.full(5, 6))
    assert kept.tolist() == [False, False, False, True, True]
    assert decisions.rows_to_keep(offsets, np.full(5, 4), np.zeros(5, int)).tolist() == [
        False,
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("hours", "floor"), [({}, 5), ({7: 0}, 5), ({7: 1}, 5), ({7: 2}, 9), ({8: 2}, 5)]
)
def test_an_hours_floor_is_the_larger_of_its_version_and_the_start_offsets(
    hours: dict[int, int], floor: int
) -> None:
    offset_vectors = {1: offset_vector(3), 2: offset_vector(9)}
    assert (
        decisions.hour_floor(topic_partition(), offset_vector(5), hours, offset_vectors, 7) == floor
    )


def test_a_batch_begins_at_or_before_the_committed_offsets() -> None:
    decisions.check_batch(offset_vector(5, 2), (3, "u"), offset_vector(5, 2), 3, "u")
    decisions.check_batch(offset_vector(5, 2), (3, "u"), OffsetVector(), 3, "u")
    for start in (offset_vector(6), offset_vector(5, 3), offset_vector(0, 0, 1)):
        with pytest.raises(GapRefused):
            decisions.check_batch(offset_vector(5, 2), (3, "u"), start, 3, "u")


@pytest.mark.parametrize(
    ("first", "last", "action", "deleted"),
    [
        (3, 4, PublishDecision.PUBLISH, True),  #        [3 4] | 5
        (4, 5, PublishDecision.LEAVE_OVER, False),  #   [4 | 5]
        (5, 6, PublishDecision.PUBLISH, False),  #            | [5 6]
    ],
)
def test_a_running_partial_goes_stays_or_stops_the_publish_by_the_offset_vector(
    first: int, last: int, action: PublishDecision, deleted: bool
) -> None:
    running = part(first, last)
    decided = decisions.publish_decision(1, offset_vector(5), None, [running])
    assert decided == (action, (running.field,) if deleted else ())


def test_partitions_that_the_offset_vector_does_not_know_stay() -> None:
    assert decisions.publish_decision(1, offset_vector(5), None, [part(0, 9, partition=1)]) == (
        PublishDecision.PUBLISH,
        (),
    )


@pytest.mark.parametrize(("current", "stale"), [(None, False), (0, False), (1, False), (2, True)])
def test_only_an_older_archive_version_is_stale(current: int | None, stale: bool) -> None:
    assert (
        decisions.publish_decision(1, offset_vector(5), current, [])[0] is PublishDecision.STALE
    ) == stale


def test_a_backfill_is_of_its_start_offsets_and_an_archive_reaches_it() -> None:
    decisions.check_publish(0, offset_vector(5), offset_vector(5))
    decisions.check_publish(1, offset_vector(5), offset_vector(5))
    decisions.check_publish(1, offset_vector(6, 1), offset_vector(5))
    for archive_version, offsets in (
        (0, offset_vector(6)),
        (0, offset_vector(4)),
        (1, offset_vector(4)),
        (1, offset_vector(9, 0)),
    ):
        with pytest.raises(GapRefused):
            decisions.check_publish(
                archive_version,
                offsets,
                offset_vector(5, 0) if archive_version == 0 else offset_vector(5, 1),
            )


def test_expiry_is_the_first_whole_second_at_which_no_read_can_reach() -> None:
    assert decisions.expiry_s(1_000_000, 0) == 1
    assert decisions.expiry_s(1_000_001, 0) == 2
    assert decisions.expiry_s(HOUR_US, HOUR_US) == 7_200


def test_what_is_kept_begins_at_a_whole_step() -> None:
    assert decisions.kept_from_us(100, 40, 10) == 60
    assert decisions.kept_from_us(101, 40, 10) == 70


def test_a_name_takes_its_first_units_at_once_and_others_when_all_are_ready() -> None:
    views = {"new": ["a"], "changed": ["b", "c"]}
    current = {"changed": ("b",)}
    assert decisions.aliases_to_set(views, current, ["b"]) == {"new": ("a",)}
    assert decisions.aliases_to_set(views, current, ["b", "c"]) == {
        "new": ("a",),
        "changed": ("b", "c"),
    }


def test_only_topics_that_nobody_knows_begin_at_the_logs_first_offset() -> None:
    begun, other = topic_partition()[0], "f" * 32
    earliest = OffsetVector({(begun, 0): 3, (other, 0): 4})
    assert decisions.begun(frozenset(), [], earliest) == earliest
    for topic_partitions, topics in ((frozenset({topic_partition(1)}), []), (frozenset(), [begun])):
        assert decisions.begun(topic_partitions, topics, earliest) == OffsetVector({(other, 0): 4})


@pytest.mark.parametrize("minutes", [-90, -1, 1, 90])
def test_a_clock_that_is_off_dates_no_snapshot(minutes: int) -> None:
    now, bound = 1_790_000_000_000_000, decisions.CLOCK_OFF_US
    for off in (-bound, 0, bound):
        decisions.check_clock(now + off, now, now + off)
    decisions.check_clock(now - 90 * 60_000_000, now, now)  # it stood still while it asked
    own_us = now + minutes * 60_000_000
    with pytest.raises(
        ClockOff, match=f"{abs(minutes) * 60} s {'ahead of' if minutes > 0 else 'behind'} the store"
    ):
        decisions.check_clock(own_us, now, own_us)


@pytest.mark.parametrize(
    ("version", "policy", "role"),
    [
        ("6.2.14", "noeviction", "master"),
        ("7.0.0", "allkeys-lru", "master"),
        ("7.0.0", "noeviction", "slave"),
    ],
)
def test_a_server_without_the_promises_is_refused(version: str, policy: str, role: str) -> None:
    decisions.check_server("7.0.0", "noeviction", "master")
    decisions.check_server("10.1", "noeviction", "master")
    with pytest.raises(StoreUnavailable):
        decisions.check_server(version, policy, role)
