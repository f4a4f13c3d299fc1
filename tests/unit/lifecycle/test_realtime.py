"""Rules of the real-time lane: it may begin, is alive or lost, and lets the micro-batch lane
wait."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.schema.dedupe import Dedupe
from slicewise.lifecycle.health.judge import Health, Limits, lives
from slicewise.lifecycle.health.overview import freshness_of, health_of
from slicewise.lifecycle.health.watch import Watch
from slicewise.lifecycle.realtime import (
    SPARE_SLOTS,
    Pace,
    microbatch_wait_s,
    realtime_sources,
    realtime_units,
    relieved,
    slots,
    speaks,
    waits_for,
)
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.redis.status import StoreStatus

NOW, SECOND = 1_700_000_000_000_000, 1_000_000
TOPIC = "ab" * 16
PACE = Pace(longest_s=1.0, bound=1_000, most_records=200_000)


def offset_vector(first: int, second: int) -> OffsetVector:
    return OffsetVector({(TOPIC, 0): first, (TOPIC, 1): second})


def status(age_s: float = 0, **more: object) -> Status:
    reported = {"state": "running", "heartbeat_us": NOW - int(age_s * SECOND), "lag": 0} | more
    return Status.parse("plays", json.dumps(reported))


def test_the_real_time_lane_begins_once_the_micro_batch_lane_is_near_the_end_of_all_partitions_together() -> (
    None
):
    microbatch = status(tail="on")
    assert waits_for(offset_vector(60, 50), offset_vector(10, 0), microbatch, 100, NOW) is None
    assert (
        waits_for(offset_vector(61, 50), offset_vector(10, 0), microbatch, 100, NOW)
        == "the micro-batch lane is 101 events behind, more than 100"
    )
    # the committed offsets of another topic of that name is none of its own
    assert (
        waits_for(offset_vector(61, 50), OffsetVector({("cd" * 16, 0): 99}), microbatch, 100, NOW)
        is not None
    )


def test_the_real_time_lane_waits_for_a_micro_batch_that_would_not_remove_what_it_writes() -> None:
    end = offset_vector(1, 1)
    assert "slicewise stream ensure" in (waits_for(end, end, status(tail="off"), 100, NOW) or "")
    # one that is gone says nothing any more: the next one will see the real-time lane's entry
    assert waits_for(end, end, status(61, tail="off"), 100, NOW) is None
    assert waits_for(end, end, status(tail="off", state="stopped"), 100, NOW) is None
    assert waits_for(end, end, None, 100, NOW) is None


def test_the_micro_batch_lane_takes_its_time_only_beside_a_real_time_lane_that_brings_events() -> (
    None
):
    assert lives(status(9), NOW)
    assert not lives(status(10), NOW)
    assert not lives(status(waiting="the micro-batch lane is behind"), NOW)
    assert not lives(status(state="failed"), NOW)
    assert not lives(None, NOW)


def test_each_partition_has_a_slot() -> None:
    assert slots({"plays": 2}) == SPARE_SLOTS
    assert slots({"plays": 30, "orders": 30}) == 2 * 60


def test_a_query_is_relieved_once_the_next_has_acknowledged_what_the_log_had_when_it_first_spoke() -> (
    None
):
    ends = {0: 10, 1: 20}
    assert relieved(ends, {0: 10, 1: 25}, {0: 3, 1: 3})
    assert not relieved(ends, {0: 9, 1: 25}, {0: 3, 1: 3})
    # what the micro-batch lane has is visible, whoever brought it: a partition where nothing comes
    # says nothing
    assert relieved(ends, {1: 20}, {0: 10, 1: 0})
    assert not relieved(ends, {1: 20}, {})


def test_a_query_that_begins_is_not_judged_before_it_spoke_or_long_had_nothing_to_say() -> None:
    assert speaks(True, 0.0)
    assert not speaks(False, 9.9)
    assert speaks(False, 10.0)


def test_the_micro_batch_lane_waits_for_the_rest_of_its_interval() -> None:
    assert microbatch_wait_s(0, 10, 0.25, 1.0, PACE) == 0.75
    assert microbatch_wait_s(10, 10, 1.25, 1.0, PACE) == 0.0


def test_a_micro_batch_that_is_behind_does_not_wait() -> None:
    assert microbatch_wait_s(1, 99_999, 0.0, 1.0, PACE) > 0
    assert microbatch_wait_s(1, 100_000, 0.0, 1.0, PACE) == 0.0


@given(st.integers(1, 100_000), st.floats(0.01, 10.0))
def test_an_entitys_pending_events_stays_within_half_of_its_bound_at_the_rate_that_was_seen(
    most: int, over_s: float
) -> None:
    wait_s = microbatch_wait_s(most, most, 0.0, over_s, PACE)
    assert most / over_s * wait_s <= PACE.bound / 2 * 1.000001 or wait_s == 0.0
    assert wait_s <= PACE.longest_s
    if 2 * most < PACE.most_records and most / over_s <= PACE.bound / 2:
        assert wait_s == PACE.longest_s, "a real-time lane that is short costs nobody a micro-batch"


def test_a_lost_real_time_lane_alone_is_no_lost_stream_and_is_told() -> None:
    stream = json.dumps({"state": "running", "heartbeat_us": NOW, "lag": 0, "tail": "on"})
    unit = {"view": "v", "source": "plays"}

    def judged(realtime: str | None, microbatch: str = stream, **more: object) -> Health:
        parts = {"stream:plays": microbatch} | (
            {"tail:plays": realtime} if realtime is not None else {}
        )
        manifest = {"sources": [{"name": "plays"}], "units": [unit | more]}
        return health_of(StoreStatus(NOW, {}, manifest, parts), Limits())

    lost = judged(json.dumps({"state": "running", "heartbeat_us": NOW - 61 * SECOND, "lag": 0}))
    assert lost.well
    assert lost.aging == ("tail: plays: no heartbeat for 61 s",)
    assert judged(None).aging == ("tail: plays: no driver has written a status",)
    assert judged(stream).aging == ()
    # one that is off is missed by nobody, nor one of a source that the micro-batch lane alone
    # brings
    assert judged(None, stream.replace('"on"', '"off"')).aging == ()
    assert judged(None, functions=[["f", {}]]).aging == ()


@pytest.mark.parametrize("dedupe", [None, sw.dedupe("event")], ids=["plain", "dedupe"])
def test_the_real_time_lane_is_missed_exactly_where_the_real_time_lane_has_units_to_write(
    dedupe: Dedupe | None,
) -> None:
    """The store's JSON and the deployment that it came from say the same of the same source."""
    columns = {"song": "string", "t": "timestamp_us", "event": "string"}
    source = sw.KafkaSource("plays", schema=columns, timestamp="t", dedupe=dedupe)
    plays = sw.Feature("plays", sw.count(), windows=["1h"])
    view = sw.FeatureView("songs", source=source, entity=["song"], features=[plays])
    deployment = plan(Project.of("p", [view]))
    stream = json.dumps({"state": "running", "heartbeat_us": NOW, "lag": 0, "tail": "on"})
    status = StoreStatus(NOW, {}, json.loads(deployment.to_json()), {"stream:plays": stream})
    assert bool(health_of(status, Limits()).aging) == bool(realtime_units(deployment, "plays"))
    assert realtime_sources(status.manifest) == ({"plays"} if dedupe is None else set())


def test_freshness_is_that_of_who_is_first() -> None:
    def realtime(p50: float, age_s: int = 0) -> str:
        beat = NOW - age_s * SECOND
        return json.dumps(
            {"state": "running", "heartbeat_us": beat, "lag": 0, "freshness_p50_ms": p50}
        )

    def fresh(**parts: str) -> float | None:
        [result] = freshness_of(StoreStatus(NOW, {}, {"sources": [{"name": "plays"}]}, parts))
        return result.freshness_p50_ms

    assert fresh(**{"stream:plays": realtime(900), "tail:plays": realtime(2)}) == 2
    assert fresh(**{"stream:plays": realtime(150), "tail:plays": realtime(2, age_s=10)}) == 150
    assert fresh(**{"stream:plays": realtime(150)}) == 150


@pytest.mark.parametrize(("looks", "outcome"), [(3, "well"), (4, "aging")])
def test_a_watch_ends_when_the_real_time_lane_stays_lost(looks: int, outcome: str) -> None:
    watch, aging = (
        Watch(patience=4, grace_until_us=NOW),
        Health((), aging=("tail: plays: no heartbeat",)),
    )
    watch = watch.after(aging, NOW - 1)  # its driver was started just now
    for _ in range(looks):
        watch = watch.after(aging, NOW)
    assert watch.outcome == outcome
    assert watch.after(Health(()), NOW).outcome == "well"
