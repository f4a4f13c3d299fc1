"""The sweep finds keys, and gives them an expiry, by its rules."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slicewise.lifecycle.sweep import SLACK_S, Finding, SweepRules, UnitRule, rules_of, verdict
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.rules.decisions import expiry_s
from slicewise.windows.durations import DAY_US

UNIT, OTHER, EVER = "a" * 16, "b" * 16, "c" * 16
MINUTE = 60_000_000
RULE = UnitRule(retention_us=2 * DAY_US, max_ahead_us=MINUTE, slice_us=MINUTE)
NOW = int(datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp()) * 1_000_000
DAY = NOW // DAY_US
LIFETIME = UnitRule(2 * DAY_US, MINUTE, MINUTE, lifetime=True, total_until=(DAY - 3) * 24)
RULES = SweepRules(store_id=3, units={UNIT: RULE, EVER: LIFETIME})
TAG = keys.entity_tags([("name", "string")], [["{strange}:é"]])[0]
HOT = keys.hot_key(3, TAG, UNIT)
TODAY = keys.day_key(3, TAG, UNIT, DAY)
BOUND_HOT = NOW // 1_000_000 + 60 + 2 * 86_400 + SLACK_S


@pytest.mark.parametrize(
    "key",
    [
        keys.METADATA,
        keys.manifest_key("f" * 64),
        keys.status_key("stream:flights"),
        keys.published_key(3, UNIT),
        keys.offset_vectors_key(3, "flights"),
        keys.leaderboard_key(3, "top_songs"),
        keys.leaderboard_key(3, "top_songs", 1_357_000_010_000_000),
    ],
)
def test_what_stands_without_expiry_by_design_is_well(key: bytes) -> None:
    assert verdict(key, None, NOW, RULES).finding is Finding.WELL


def test_nothing_of_a_lifetime_expires_and_days_before_the_total_until_hour_go() -> None:
    #   DAY-4 | DAY-3 ...       the total-until hour is the first hour of DAY-3
    for key in (
        keys.hot_key(3, TAG, EVER),
        keys.day_key(3, TAG, EVER, DAY - 3),
        keys.day_key(3, TAG, EVER, DAY + 9),
    ):
        assert verdict(key, None, NOW, RULES).finding is Finding.WELL
    result = verdict(keys.day_key(3, TAG, EVER, DAY - 4), None, NOW, RULES)
    assert result.finding is Finding.IN_TOTALS
    assert result.delete
    unmarked = SweepRules(store_id=3, units={EVER: UnitRule(1, 1, 1, lifetime=True)})
    assert (
        verdict(keys.day_key(3, TAG, EVER, DAY - 400), None, NOW, unmarked).finding is Finding.WELL
    )


@pytest.mark.parametrize(
    "key",
    [
        keys.hot_key(2, TAG, UNIT),
        keys.day_key(2, TAG, UNIT, DAY),
        keys.published_key(2, UNIT),
        keys.offset_vectors_key(2, "s"),
        keys.leaderboard_key(2, "b"),
    ],
)
def test_keys_of_an_older_store_id_go(key: bytes) -> None:
    result = verdict(key, NOW // 1_000_000 + 5, NOW, RULES)
    assert result.finding is Finding.OLD_STORE_ID
    assert result.delete


@pytest.mark.parametrize(
    "key",
    [
        keys.hot_key(4, TAG, UNIT),
        keys.day_key(4, TAG, UNIT, DAY),
        keys.published_key(4, UNIT),
        keys.offset_vectors_key(4, "s"),
        keys.leaderboard_key(4, "b"),
    ],
)
def test_a_store_that_is_emptied_and_filled_while_it_is_swept_keeps_its_keys(key: bytes) -> None:
    for expires_at_s in (None, NOW // 1_000_000 + 10**9):
        assert verdict(key, expires_at_s, NOW, RULES).finding is Finding.WELL


def test_an_expiry_as_the_micro_batch_lane_and_the_publish_set_it_is_well() -> None:
    now_slice_end = NOW + RULE.max_ahead_us + MINUTE
    assert (
        verdict(HOT, expiry_s(now_slice_end, RULE.retention_us), NOW, RULES).finding is Finding.WELL
    )
    last_hour_end = (DAY + 1) * DAY_US
    assert (
        verdict(TODAY, expiry_s(last_hour_end, RULE.retention_us), NOW, RULES).finding
        is Finding.WELL
    )


def test_a_missing_expiry_gets_the_end_of_what_a_read_may_reach() -> None:
    result = verdict(HOT, None, NOW, RULES, fields=[])
    assert (result.finding, result.expire_at_s) == (Finding.NO_EXPIRY, BOUND_HOT)
    result = verdict(TODAY, None, NOW, RULES)
    assert result.expire_at_s == (DAY + 1) * 86_400 + 2 * 86_400 + SLACK_S


def test_an_expiry_one_second_beyond_the_bound_is_too_long() -> None:
    assert verdict(HOT, BOUND_HOT, NOW, RULES, fields=[]).finding is Finding.WELL
    assert verdict(HOT, BOUND_HOT + 1, NOW, RULES, fields=[]).finding is Finding.OVER_LONG


def test_what_is_ahead_of_the_stores_clock_is_never_shortened() -> None:
    # a producer's clock was ten days ahead: its events are good, and must stay as long as any
    ten_days_on = (NOW + 10 * DAY_US) // MINUTE
    needed = expiry_s((ten_days_on + 1) * MINUTE, RULE.retention_us)
    assert verdict(HOT, needed, NOW, RULES).needs_fields
    fields = [b"l:t:0", *keys.running_fields([5, ten_days_on], ("ab", 0))]
    assert verdict(HOT, needed, NOW, RULES, fields).finding is Finding.WELL
    assert verdict(HOT, needed + 1, NOW, RULES, fields).expire_at_s == needed


def test_an_expiry_is_left_alone_until_the_micro_batch_lane_has_what_the_real_time_lane_wrote() -> (
    None
):
    # names of pending fields say nothing of the times of their events
    late, topic_partition = BOUND_HOT + 10**9, keys.topic_partition_text(("ab", 1))
    pending = [
        keys.pending_numbers(topic_partition),
        keys.skip_field(("ab", 1)),
        keys.PENDING_COUNT,
    ]
    fields = [b"l:t:0", *keys.running_fields([5], ("ab", 1)), *pending]
    assert verdict(HOT, late, NOW, RULES, fields).finding is Finding.OVER_LONG
    for expiry in (late, None):
        assert (
            verdict(
                HOT, expiry, NOW, RULES, [*fields, keys.pending_field(topic_partition, 3)]
            ).finding
            is Finding.WELL
        )


def test_a_unit_that_came_after_the_rules_gets_an_expiry_and_keeps_one_that_it_has() -> None:
    later = SweepRules(3, {UNIT: RULE}, deployment_version=7, retired=4)
    for rules, name in ((RULES, OTHER), (later, f"{OTHER}.8")):
        key = keys.hot_key(3, TAG, name)
        assert verdict(key, None, NOW, rules).finding is Finding.NO_EXPIRY
        assert verdict(key, NOW // 1_000_000 + 10**9, NOW, rules).finding is Finding.WELL
        assert verdict(keys.published_key(3, name), None, NOW, rules).finding is Finding.WELL


@pytest.mark.parametrize("name", [UNIT, OTHER, f"{OTHER}.5", f"{UNIT}.6"])
def test_keys_of_a_build_that_is_over_go(name: str) -> None:
    # UNIT was left out and came back with deployment version 7
    rules = SweepRules(3, {f"{UNIT}.7": RULE}, deployment_version=9, retired=6)
    for key in (
        keys.hot_key(3, TAG, name),
        keys.day_key(3, TAG, name, DAY),
        keys.published_key(3, name),
    ):
        result = verdict(key, NOW // 1_000_000 + 5, NOW, rules)
        assert (result.finding, result.unit, result.delete) == (Finding.RETIRED, name, True)
    for key in (keys.day_key(3, TAG, f"{UNIT}.7", DAY), keys.published_key(3, f"{UNIT}.7")):
        assert not verdict(key, NOW // 1_000_000 + 5, NOW, rules).delete


@pytest.mark.parametrize(
    "key",
    [
        b"sw:3:x",
        b"sw:3:{a}:" + UNIT.encode() + b":odd",
        b"sw:3:{a}:" + UNIT.encode() + b":day:20261399",
        b"sw:",
    ],
)
def test_what_is_not_known_is_reported_and_left_alone(key: bytes) -> None:
    result = verdict(key, None, NOW, RULES)
    assert result.finding is Finding.UNKNOWN
    assert result.expire_at_s is None
    assert not result.delete


def test_lists_keep_the_expiry_that_their_script_set_and_those_of_rows_have_none() -> None:
    both = [keys.list_key(3, TAG, UNIT), keys.members_key(3, TAG, UNIT)]
    keeps_rows = SweepRules(
        3, {UNIT: UnitRule(RULE.retention_us, RULE.max_ahead_us, 1, keeps_rows=True)}
    )
    for key in both:
        # an event may lie far ahead of the store's clock: only the script knows when the newest is
        # too old
        assert verdict(key, BOUND_HOT + 10**9, NOW, RULES).finding is Finding.WELL
        result = verdict(key, None, NOW, RULES)
        assert (result.finding, result.expire_at_s) == (Finding.NO_EXPIRY, BOUND_HOT)
        assert verdict(key, None, NOW, keeps_rows).finding is Finding.WELL
        over = SweepRules(3, {f"{UNIT}.7": RULE}, deployment_version=9, retired=6)
        assert verdict(key, None, NOW, over).delete


def test_remembered_ids_keep_the_expiry_that_the_micro_batch_lane_set_and_those_of_lifetimes_have_none() -> (
    None
):
    key = keys.ids_key(3, TAG, UNIT)
    assert verdict(key, BOUND_HOT + 10**9, NOW, RULES).finding is Finding.WELL
    result = verdict(key, None, NOW, RULES)
    assert (result.finding, result.expire_at_s) == (Finding.NO_EXPIRY, BOUND_HOT)
    ever = SweepRules(3, {UNIT: UnitRule(RULE.retention_us, RULE.max_ahead_us, 1, lifetime=True)})
    assert verdict(key, None, NOW, ever).finding is Finding.WELL
    assert verdict(
        key, None, NOW, SweepRules(3, {f"{UNIT}.7": RULE}, deployment_version=9, retired=6)
    ).delete


def test_rules_come_from_the_deployed_manifest() -> None:
    manifest = {
        "sources": [{"name": "s", "max_ahead_us": MINUTE}],
        "units": [
            {
                "storage_fingerprint": UNIT,
                "source": "s",
                "retention_us": 2 * DAY_US,
                "slice_us": MINUTE,
            }
        ],
    }
    metadata = StoreMetadata(
        3, 5, "d", frozenset(), OffsetVector(), {}, frozenset(), {}, {}, {}, {UNIT: 4}, 2
    )
    assert rules_of(metadata, manifest) == SweepRules(
        3, {f"{UNIT}.4": RULE}, deployment_version=5, retired=2
    )
    assert rules_of(metadata, {}).longest_us == DAY_US
