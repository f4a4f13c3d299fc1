"""A plan is a function of the definitions: slices, levels, retention, fingerprints, and what a
change costs."""

import dataclasses
import json
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.errors import DefinitionError, UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.build import definition_payload, storage_payload
from slicewise.features.plan.changes.costs import TEXT_BYTES, reads_per_request
from slicewise.features.plan.changes.explain import (
    changes,
    explain,
    refuse_changed_units,
)
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.fingerprint import canonical_json
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.project import load_project
from slicewise.reading.plan import plan_read
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US, parse_duration
from tests.support.fields import SourceFields, ViewFields, ViewOptions

SCHEMA = {
    "user_id": "string",
    "country": "string",
    "song_id": "string",
    "seconds": "double",
    "stars": "long",
    "price": "decimal(10,2)",
    "liked": "boolean",
    "played_at": "timestamp_us",
}


def source(**changes: Unpack[SourceFields]) -> sw.KafkaSource:
    given: SourceFields = {
        "name": "plays",
        "schema": SCHEMA,
        "timestamp": "played_at",
        "max_lateness": "7d",
        **changes,
    }
    return sw.KafkaSource(**given)


def view(*features: sw.Feature, **changes: Unpack[ViewOptions]) -> sw.FeatureView:
    given: ViewFields = {
        "name": "listening",
        "source": source(),
        "entity": ["user_id"],
        "features": list(features),
        **changes,
    }
    return sw.FeatureView(**given)


def plays(*windows: sw.Window | str) -> sw.Feature:
    return sw.Feature("plays", sw.count(), windows=list(windows or ["10m", "1h"]))


def planned(*definitions: sw.FeatureView | sw.FeatureSet) -> Deployment:
    return plan(Project.of("music", definitions))


def unit(*features: sw.Feature, **changes: Unpack[ViewOptions]) -> StorageUnit:
    (storage_unit,) = planned(view(*features, **changes)).units
    return storage_unit


# ------------------------------------------------------------ units, levels, retention
def test_windows_whose_slices_differ_sixtyfold_stay_in_one_unit() -> None:
    assert unit(plays("10m", "1d")).slice_us == MINUTE_US  # own slices 1m and 1h: exactly 60


def test_windows_whose_slices_differ_more_are_two_units() -> None:
    units = planned(view(plays("5m", "1d"))).units  # own slices 30s and 1h: 120
    assert [storage_unit.slice_us for storage_unit in units] == [30_000_000, HOUR_US]
    assert [[f.column for f in storage_unit.features] for storage_unit in units] == [
        ["plays_5m"],
        ["plays_1d"],
    ]
    assert len({storage_unit.storage_fingerprint for storage_unit in units}) == 2


def test_a_declared_slice_keeps_one_unit() -> None:
    assert unit(plays("5m", "1d"), slice="1m").slice_us == MINUTE_US


def test_minutes_are_kept_where_a_window_is_read_by_them() -> None:
    assert unit(plays("5m", "1h")).levels == ()
    assert unit(plays("5m", "1d"), slice="30s").levels == (MINUTE_US,)  # 2,880 slices are too many
    assert unit(plays("10m", "7d")).levels == ()  # by hours, which are always kept


def test_retention_is_the_longest_reach_and_the_lateness() -> None:
    late = 7 * DAY_US
    assert unit(plays("10m", "1h")).retention_us == HOUR_US + MINUTE_US + late
    # resolution: the hour
    assert unit(plays("10m", "7d")).retention_us == 7 * DAY_US + HOUR_US + late
    assert unit(plays("10m", sw.tumbling("1d"))).retention_us == 2 * DAY_US + late
    assert (
        unit(plays("10m", sw.sliding("1h", offset="2d"))).retention_us
        == 2 * DAY_US + HOUR_US + MINUTE_US + late
    )
    assert (
        unit(plays("10m", sw.tumbling("1d", offset="1h"))).retention_us
        == 2 * DAY_US + HOUR_US + late
    )


def test_a_lifetime_is_stored_as_a_unit_of_its_own_kind_and_read_back_a_day_and_the_lateness() -> (
    None
):
    ever, month = unit(plays("10m", "lifetime")), unit(plays("10m"))
    assert ever.lifetime
    assert not month.lifetime
    assert ever.layout == month.layout
    # what the one lets expire, the other needs
    assert ever.storage_fingerprint != month.storage_fingerprint
    assert ever.retention_us == 8 * DAY_US
    assert unit(plays(sw.lifetime(offset="3d"))).retention_us == 11 * DAY_US
    assert ever.slice_us == unit(plays("lifetime")).slice_us == MINUTE_US
    (again,) = Deployment.from_json(planned(view(plays("10m", "lifetime"))).to_json()).units
    assert again == ever
    # days with their index, hours of today, slices of this one
    assert reads_per_request(ever) <= 2 * 9 + 24 + 2


def test_a_decaying_sum_refuses_a_lifetime() -> None:
    with pytest.raises(DefinitionError, match="over lifetime"):
        unit(sw.Feature("lately", sw.decay_count(half_life="1h"), windows=["lifetime"]))


def test_a_session_is_kept_for_as_long_as_it_may_last_and_its_view_tells_first_and_last_events() -> (
    None
):
    made = unit(plays("1h", sw.session("30m", max_length="1d")))
    assert (made.slice_us, made.levels) == (MINUTE_US, ())
    assert made.retention_us == DAY_US + MINUTE_US + 7 * DAY_US
    assert [partial.kind for partial in made.layout.partials] == ["count", "span"]
    assert {feature.partial for feature in made.features} == {0}
    (row,) = explain(planned(view(plays("1h", sw.session("30m", max_length="1d")))))
    # of each hour that it may touch the slices, and its total
    assert 2 * 24 <= row.reads_per_request <= 2 * 25
    assert row.partials == ("count()", "span()")


def test_a_view_without_a_session_keeps_no_spans() -> None:
    assert [partial.kind for partial in unit(plays("1h")).layout.partials] == ["count"]


@pytest.mark.parametrize(
    ("windows", "slice_", "message"),
    [
        (
            [sw.session("5m", max_length="1h")],
            "10m",
            "the gap of session_5m is shorter than the slice 10m",
        ),
        ([sw.session("30m", max_length="30d")], None, "43200 slices of 1m; a read looks at each"),
        (
            ["10s", sw.session("10m", max_length="1d")],
            None,
            "86400 slices of 1s; a read looks at each",
        ),
        ([sw.session("500ms", max_length="1h")], None, "no slice fits the windows session_500ms"),
    ],
)
def test_a_session_that_cannot_be_walked_is_refused(
    windows: list[sw.Window | str], slice_: str | None, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        planned(view(plays(*windows), slice=slice_))
    assert refused.value.next_step
    assert "listening" in str(refused.value)


def test_a_session_added_to_a_deployed_view_that_tells_no_spans_is_refused() -> None:
    now = planned(view(plays("1h", "10m")))
    (change,) = changes(planned(view(plays("1h", "10m", sw.session("30m", max_length="1h")))), now)
    assert change.kind == "refused"
    assert "span" in change.reason


def test_a_global_view_is_per_partition() -> None:
    assert unit(plays(), entity=[]).per_partition
    assert not unit(plays()).per_partition
    assert unit(plays(), spread=True).per_partition


def test_entity_columns_are_sorted_by_name() -> None:
    assert unit(plays(), entity=["user_id", "country"]).entity == (
        ("country", "string"),
        ("user_id", "string"),
    )


def test_aggregates_that_store_the_same_share_a_partial() -> None:
    storage_unit = unit(
        sw.Feature("total", sw.sum("seconds"), windows=["1h"]),
        sw.Feature("average", sw.mean("seconds"), windows=["1h", "6h"]),
        plays("1h"),
    )
    assert len(storage_unit.layout.partials) == 2
    by_column = {f.column: f.partial for f in storage_unit.features}
    assert (
        by_column["total_1h"]
        == by_column["average_1h"]
        == by_column["average_6h"]
        != by_column["plays_1h"]
    )
    ids = [partial.partial_id() for partial in storage_unit.layout.partials]
    assert ids == sorted(ids)


def test_a_unit_names_what_it_reads() -> None:
    storage_unit = unit(
        sw.Feature("m", sw.sum("minutes"), windows=["1h"]),
        where="liked",
        columns={"minutes": "seconds / 60", "unused": "stars + 1"},
    )
    assert storage_unit.reads == ("liked", "played_at", "seconds", "user_id")
    assert storage_unit.input_types == (("minutes", "double"),)
    assert [name for name, _ in storage_unit.columns] == ["minutes"]


# ------------------------------------------------------------ deployments
EVERYTHING = (
    view(
        plays(
            "10m",
            "1d",
            sw.tumbling("1h"),
            sw.hopping("2h", every="10m"),
            sw.tumbling("1h", open=True),
        ),
        sw.Feature("minutes", sw.sum("minutes"), windows=["1h"]),
        sw.Feature("spent", sw.mean("price"), windows=["1h"]),
        sw.Feature("best", sw.argmax("song_id", by="stars"), windows=["1h"]),
        sw.Feature("worst", sw.argmin("song_id", by="stars"), windows=["1h"]),
        sw.Feature("top", sw.top_k("song_id", by="seconds", k=3), windows=["1d"]),
        sw.Feature("last", sw.last_k("song_id", k=4), windows=["1d"]),
        sw.Feature("least", sw.min("stars"), windows=["1d"]),
        sw.Feature("most", sw.max("played_at"), windows=["1d"]),
        sw.Feature("songs", sw.distinct_count("song_id"), windows=["1d"]),
        sw.Feature("any", sw.bool_or("liked"), windows=["1d"]),
        sw.Feature("all", sw.bool_and("liked"), windows=["1d"]),
        where="seconds >= 30 AND song_id <> 'it''s é'",
        columns={"minutes": "seconds / 60"},
        owner="music",
    ),
    view(plays("5m", "1d"), name="everywhere", entity=[]),
    sw.FeatureSet(
        "churn",
        ["listening:plays_10m", "everywhere:plays_1d"],
        defaults={"plays_10m": 0},
        owner="growth",
    ),
)


def test_a_deployment_survives_json_and_pickle() -> None:
    made = planned(*EVERYTHING)
    text = made.to_json()
    assert text.isascii()
    again = Deployment.from_json(text)
    assert again == made
    assert again.to_json() == text
    assert again.digest == made.digest
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_deployment_is_found_by_its_names() -> None:
    made = planned(*EVERYTHING)
    result, feature = made.resolve("everywhere:plays_1d")
    assert (result.view, feature.column) == ("everywhere", "plays_1d")
    assert made.unit(result.storage_fingerprint) is result
    assert len(made.view("everywhere")) == 2
    assert made.views == ("listening", "everywhere")
    assert made.feature_set("churn").defaults == (("listening:plays_10m", 0),)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda d: d.resolve("listening:plays_10"), "plays_10m"),
        (lambda d: d.resolve("listing:plays_10m"), "listening"),
        (lambda d: d.resolve("plays_10m"), "view:column"),
        (lambda d: d.view("nowhere"), "everywhere"),
        (lambda d: d.feature_set("chorn"), "churn"),
        (lambda d: d.source("play"), "plays"),
        (lambda d: d.unit("0000"), "one of"),
    ],
)
def test_an_unknown_name_is_answered_with_those_that_exist(
    call: Callable[[Deployment], object], hint: str
) -> None:
    with pytest.raises(UnknownName) as refused:
        call(planned(*EVERYTHING))
    assert hint in f"{refused.value.expected} {refused.value.next_step}"


def test_a_deployment_of_another_algebra_is_refused() -> None:
    raw = json.loads(planned(*EVERYTHING).to_json())
    raw["units"][0]["storage_fingerprint"] = "0" * 16
    with pytest.raises(DefinitionError, match="storage fingerprint of view 'listening'"):
        Deployment.from_json(json.dumps(raw))
    with pytest.raises(DefinitionError, match="no deployment of this version"):
        Deployment.from_json("{}")


# ------------------------------------------------------------ fingerprints
def golden() -> Deployment:
    """One unit in which every part of the payload says something."""
    return planned(
        view(
            plays("10m", sw.tumbling("1h")),
            sw.Feature("minutes", sw.sum("minutes"), windows=["1h"]),
            entity=["user_id", "country"],
            where="stars >= 3",
            columns={"minutes": "seconds / 60"},
        )
    )


def test_golden_storage_fingerprint() -> None:
    # docs/format.md, "Fingerprints". A change here is a migration of all that is stored.
    made = golden()
    (storage_unit,) = made.units
    assert canonical_json(storage_payload(storage_unit, made.source("plays"))) == GOLDEN_STORAGE
    assert storage_unit.storage_fingerprint == GOLDEN_STORAGE_FINGERPRINT


def test_golden_definition_fingerprint() -> None:
    (storage_unit,) = golden().units
    assert canonical_json(definition_payload(storage_unit)) == GOLDEN_DEFINITION
    assert storage_unit.definition_fingerprint == GOLDEN_DEFINITION_FINGERPRINT


class Computed(TypedDict):
    columns: dict[str, str]


BASE: Computed = {"columns": {"minutes": "seconds / 60"}}


def minutes(*windows: sw.Window | str) -> sw.Feature:
    return sw.Feature("minutes", sw.sum("minutes"), windows=list(windows or ["1h"]))


SAME_STORAGE: dict[str, Callable[[], StorageUnit]] = {
    "another window of the same slice": lambda: unit(minutes("1h", "2h"), **BASE),
    "another name of the feature": lambda: unit(
        sw.Feature("m", sw.sum("minutes"), windows=["1h"]), **BASE
    ),
    "another finishing of the same partial": lambda: unit(
        minutes(), sw.Feature("avg", sw.mean("minutes"), windows=["1h"]), **BASE
    ),
    "owner": lambda: unit(minutes(), **BASE, owner="somebody"),
    "a column that is not read": lambda: unit(
        minutes(), **BASE, source=source(schema={**SCHEMA, "new": "long"})
    ),
    "lateness and validity": lambda: unit(
        minutes(), **BASE, source=source(max_lateness="9d", max_ahead="2m", required=["song_id"])
    ),
    "spaces in row logic": lambda: unit(minutes(), columns={"minutes": " seconds/60 "}),
    "the order of schema columns": lambda: unit(
        minutes(), **BASE, source=source(schema=dict(reversed(SCHEMA.items())))
    ),
    "a computed column that nothing reads": lambda: unit(
        minutes(), columns={**BASE["columns"], "x": "stars + 1"}
    ),
}
OTHER_STORAGE: dict[str, Callable[[], StorageUnit]] = {
    "a partial more": lambda: unit(minutes(), plays("1h"), **BASE),
    "where": lambda: unit(minutes(), **BASE, where="stars > 1"),
    "a computed column": lambda: unit(minutes(), columns={"minutes": "seconds / 61"}),
    "the type of a column that is read": lambda: unit(
        minutes(), **BASE, source=source(schema={**SCHEMA, "seconds": "long"})
    ),
    "entity": lambda: unit(minutes(), **BASE, entity=["user_id", "country"]),
    "slice": lambda: unit(minutes(), **BASE, slice="1m"),
    "spread": lambda: unit(minutes(), **BASE, spread=True),
    "source": lambda: unit(minutes(), **BASE, source=source(name="others")),
    "view": lambda: unit(minutes(), **BASE, name="others"),
    "event-time form": lambda: unit(
        minutes(), **BASE, source=source(schema={**SCHEMA, "played_at": "timestamp_ms"})
    ),
}


@pytest.mark.parametrize("name", SAME_STORAGE)
def test_the_storage_fingerprint_does_not_depend_on(name: str) -> None:
    assert SAME_STORAGE[name]().storage_fingerprint == unit(minutes(), **BASE).storage_fingerprint


@pytest.mark.parametrize("name", OTHER_STORAGE)
def test_the_storage_fingerprint_depends_on(name: str) -> None:
    assert OTHER_STORAGE[name]().storage_fingerprint != unit(minutes(), **BASE).storage_fingerprint


def test_the_definition_fingerprint_depends_on_windows_names_and_finishing() -> None:
    same = unit(minutes(), **BASE).definition_fingerprint
    names = list(SAME_STORAGE)
    changed = [SAME_STORAGE[name]().definition_fingerprint != same for name in names]
    assert changed == [True, True, True] + [False] * (len(names) - 3)


def test_the_order_of_features_changes_neither() -> None:
    one = unit(minutes(), plays("1h"), **BASE)
    two = unit(plays("1h"), minutes(), **BASE)
    assert one.storage_fingerprint == two.storage_fingerprint
    assert one.definition_fingerprint == two.definition_fingerprint


# ------------------------------------------------------------ changes
def kinds(new: Deployment, deployed: Deployment | None) -> set[tuple[str, str]]:
    return {(change.view, change.kind) for change in changes(new, deployed)}


def test_what_a_change_costs_is_said_before_it_is_made() -> None:
    now = planned(view(plays("1h")), view(plays("1h"), name="old"))
    assert kinds(now, None) == {("listening", "new"), ("old", "new")}
    assert kinds(now, now) == {("listening", "unchanged"), ("old", "unchanged")}
    # 50m has the slice of 1h, and no longer reach
    other = planned(view(plays("1h", "50m")), view(plays("1h"), name="fresh"))
    assert kinds(other, now) == {("listening", "definition"), ("fresh", "new"), ("old", "removed")}


def test_a_window_beyond_what_redis_keeps_is_refused_with_both_lengths() -> None:
    now = planned(view(plays("1h")))
    (change,) = changes(planned(view(plays("1h", "3h"))), now)
    assert change.kind == "refused"
    assert "a longer window" in change.reason


def test_an_offset_is_another_definition_over_what_is_stored_within_what_redis_keeps() -> None:
    now = planned(view(plays("10m", "1d"), slice="1m"))
    within = planned(view(plays("10m", "1d", sw.sliding("1h", offset="23h")), slice="1m"))
    assert kinds(within, now) == {("listening", "definition")}
    other = planned(view(plays("10m", "1d", sw.sliding("1h", offset="22h")), slice="1m"))
    fingerprints = {
        deployment.units[0].definition_fingerprint for deployment in (now, within, other)
    }
    assert len(fingerprints) == 3
    assert (
        len({deployment.units[0].storage_fingerprint for deployment in (now, within, other)}) == 1
    )
    assert Deployment.from_json(within.to_json()) == within
    (change,) = changes(
        planned(view(plays("10m", "1d", sw.sliding("1h", offset="1d")), slice="1m")), now
    )
    assert (change.kind, "a longer window" in change.reason) == ("refused", True)


def test_a_window_read_by_minutes_is_refused_where_hours_keep_none() -> None:
    now = planned(
        view(plays("5m"), sw.Feature("day", sw.count(), windows=[sw.tumbling("1d")]), slice="30s")
    )
    sliding = planned(view(plays("5m", "1d"), slice="30s"))
    (change,) = changes(sliding, now)
    assert change.kind == "refused"
    assert "read by 1m" in change.reason


def test_a_changed_source_changes_what_is_judged_good_not_what_is_stored() -> None:
    now = planned(view(plays("1h")))
    (change,) = changes(planned(view(plays("1h"), source=source(required=["song_id"]))), now)
    assert change.kind == "definition"
    assert "new schema" in change.reason
    (change,) = changes(planned(view(plays("1h"), source=source(max_lateness="8d"))), now)
    assert change.kind == "refused", "Redis keeps less than such late events can reach"


def test_a_changed_unit_under_a_deployed_name_is_refused_with_what_differs() -> None:
    now = planned(view(plays("1h")))
    more = planned(view(plays("1h"), sw.Feature("s", sw.sum("seconds"), windows=["1h"])))
    with pytest.raises(DefinitionError, match=r"partial added: .*sum") as refused:
        refuse_changed_units(more, now)
    assert "new name" in str(refused.value.next_step)
    filtered = planned(view(plays("1h"), where="liked"))
    with pytest.raises(DefinitionError, match="where is `liked`, was none"):
        refuse_changed_units(filtered, now)
    refuse_changed_units(planned(view(plays("1h", "50m"))), now)  # the same unit: no error


def test_explain_says_what_a_unit_costs() -> None:
    (row,) = explain(planned(view(plays("10m", "1d"), minutes(), **BASE)))
    assert (row.slice, row.levels, row.features) == ("1m", (), 3)
    # a count; an exact sum: n, start of its limbs, their number
    assert row.bytes_per_row == 8 + 8 + 4 + 4
    # one live day at worst: its hours, the index of two days, the edge hours of it and of the
    # shorter windows
    assert 24 <= row.reads_per_request <= 24 + 2 + 3
    assert row.to_json()["change"]["kind"] == "new"


def test_explain_counts_for_each_window_the_fields_that_its_read_fetches() -> None:
    windows = (
        "10m",
        "1d",
        "30d",
        "90m",
        sw.tumbling("10d"),
        sw.tumbling("7d", open=True),
        sw.sliding("12d", offset="1d"),
        sw.sliding("10m", offset="7m"),
        sw.session("5m", max_length="6h"),
    )
    (unit,) = planned(view(plays(*windows), slice="1m", **BASE)).units
    (row,) = explain(planned(view(plays(*windows), slice="1m", **BASE)))
    # other times than those that the plan is made of: of 15 days, by a step that meets every minute
    # of an hour
    times = range(20_001 * DAY_US, 20_016 * DAY_US, 53 * MINUTE_US)
    for feature, counted in zip(unit.features, row.reads, strict=True):
        fetched = []
        for t in times:
            read = plan_read(unit, [feature], "live", t)
            fetched.append(Counter(name[:1].decode() for day in read.days for name in day.names))
        most = max(map(Counter.total, fetched))
        counts = (
            counted.pentads,
            counted.days,
            counted.hours,
            counted.minutes,
            counted.slices,
            counted.lists,
        )
        assert counts in {
            tuple(f[letter] for letter in "pdhmsc") for f in fetched if f.total() == most
        }, feature.column
    together = [plan_read(unit, unit.features, "live", t) for t in times]
    assert row.reads_per_request == max(
        sum(len(day.names) for day in read.days) for read in together
    )
    month = next(window_read for window_read in row.reads if window_read.window == "30d")
    assert (month.pentads, month.days) == (5, 4)
    assert row.pentads


def test_explain_bounds_what_lists_and_sketches_can_hold() -> None:
    sketch = sw.Feature(
        "songs", sw.distinct_count("song_id", threshold=100, precision=10), windows=["1d"]
    )
    (row,) = explain(planned(view(sketch, **BASE)))
    assert row.bytes_per_row == 8 + 4  # two empty lists
    full = 100 * (4 + TEXT_BYTES) + 2**10
    assert row.most_bytes_per_row == row.bytes_per_row + full
    hours = 24 + 1 + 7 * 24
    assert row.bytes_per_entity >= hours * row.most_bytes_per_row
    (quiet,) = explain(planned(view(sketch, **BASE)), events_per_hour=2)
    # of a day 48 texts, and registers that a long text may bring
    assert quiet.most_bytes_per_row == row.bytes_per_row + 48 * (4 + TEXT_BYTES) + 2**10
    assert quiet.bytes_per_entity < row.bytes_per_entity / 2
    (rare,) = explain(planned(view(sketch, **BASE)), events_per_hour=0.001)
    assert rare.bytes_per_entity < 5 * rare.most_bytes_per_row


def test_explain_bounds_a_lifetime_by_a_total_of_any_number_of_events_and_the_days_after_it() -> (
    None
):
    def sketch(*windows: str) -> sw.Feature:
        return sw.Feature(
            "songs",
            sw.distinct_count("song_id", threshold=100, precision=10),
            windows=list(windows),
        )

    (week,), (ever,) = (
        explain(planned(view(sketch(w), **BASE)), events_per_hour=0.001) for w in ("1d", "lifetime")
    )
    full = 100 * (4 + TEXT_BYTES) + 2**10
    assert ever.most_bytes_per_row == ever.bytes_per_row + full > week.most_bytes_per_row
    assert full < ever.bytes_per_entity - week.bytes_per_entity < full + 200
    assert ever.retention == "a total, and 8d after it"
    assert ever.change.reason == "stored from now on; all of history come from the archive"


@given(
    st.lists(
        st.sampled_from(["10s", "1m", "5m", "10m", "1h", "6h", "1d", "7d", "30d", "90d"]),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
def test_every_window_is_in_one_unit_whose_slice_divides_it(windows: list[str]) -> None:
    units = planned(view(plays(*windows))).units
    columns = [f.column for storage_unit in units for f in storage_unit.features]
    assert sorted(columns) == sorted(f"plays_{w}" for w in windows)
    slices = [storage_unit.slice_us for storage_unit in units]
    assert slices == sorted(set(slices))
    for storage_unit in units:
        for f in storage_unit.features:
            assert f.window.length_us % storage_unit.slice_us == 0
            assert f.window.length_us >= 10 * storage_unit.slice_us
            assert storage_unit.retention_us > f.window.length_us + parse_duration("7d")
        assert HOUR_US % storage_unit.slice_us == 0


def test_units_are_values() -> None:
    (storage_unit,) = golden().units
    assert dataclasses.replace(storage_unit) == storage_unit
    assert hash(storage_unit.where) == hash(golden().units[0].where)


GOLDEN_STORAGE = (
    '{"codec":1,"columns":{"country":"string","played_at":"timestamp_us","seconds":"double","stars":"long'
    '","user_id":"string"},"engine":{"ansi":true,"collation":"UTF8_BINARY","time_zone":"UTC"},"entity":[['
    '"country","string"],["user_id","string"]],"event_time":["played_at","us"],"partials":[{"column":"min'
    'utes","columns":{"minutes":"double"},"form":"exact_sum","version":1},{"column":null,"columns":{},"fo'
    'rm":"count","version":1}],"row_logic":{"columns":{"minutes":["div","double",["column","seconds","dou'
    'ble"],["literal","0x1.e000000000000p+5","double"]]},"version":1,"where":["ge","boolean",["column","s'
    'tars","long"],["literal",3,"long"]]},"slice_us":60000000,"source":"plays","spread":false,"view":"lis'
    'tening"}'
)
GOLDEN_STORAGE_FINGERPRINT = "66dfea243eb8ffed"
GOLDEN_DEFINITION = (
    '{"features":[{"aggregate":{"column":"minutes","kind":"sum"},"column":"minutes_1h","window":{"hop_us"'
    ':0,"kind":"sliding","length_us":3600000000,"open":false}},{"aggregate":{"column":null,"kind":"count"'
    '},"column":"plays_10m","window":{"hop_us":0,"kind":"sliding","length_us":600000000,"open":false}},{"'
    'aggregate":{"column":null,"kind":"count"},"column":"plays_tumbling_1h","window":{"hop_us":3600000000'
    ',"kind":"tumbling","length_us":3600000000,"open":false}}],"storage":"66dfea243eb8ffed"}'
)
GOLDEN_DEFINITION_FINGERPRINT = "eb411645537a3e19"


def test_the_format_document_holds_these_vectors() -> None:
    text = (Path(__file__).parents[4] / "docs" / "format.md").read_text(encoding="utf-8")
    for golden in (
        GOLDEN_STORAGE,
        GOLDEN_STORAGE_FINGERPRINT,
        GOLDEN_DEFINITION,
        GOLDEN_DEFINITION_FINGERPRINT,
    ):
        assert golden in text


def test_an_edit_of_equal_length_within_a_second_is_planned(tmp_path: Path) -> None:
    file = tmp_path / "features.py"
    for number in range(10, 20):
        file.write_text(
            "import slicewise as sw\n"
            'plays = sw.KafkaSource("plays", schema={"user": "string", "seen_at": "timestamp_us"}, '
            'timestamp="seen_at")\n'
            'view = sw.FeatureView("v", source=plays, entity=["user"], '
            f'features=[sw.Feature("n", sw.count(), windows=["{number}m"])])\n'
        )
        assert plan(load_project(file)).resolve(f"v:n_{number}m")
