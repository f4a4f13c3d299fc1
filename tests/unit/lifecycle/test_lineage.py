"""Lineage follows from the deployed definitions, column by column."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.compute as pc
import pytest

import slicewise as sw
from slicewise.aggregates.registry import REGISTRY
from slicewise.aggregates.sketches.membership import membership_of
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.lifecycle.lineage.columns import named_by
from slicewise.lifecycle.lineage.datasets import Dataset, Namespaces, is_published
from slicewise.lifecycle.lineage.steps import Scope, Step, steps_of, united
from slicewise.settings import Settings
from slicewise.spark.lineage.types import types_of

NAMESPACES = Namespaces.of(
    Settings.load(
        {
            "SLICEWISE_KAFKA_BOOTSTRAP": "broker-1:9092,broker-2:9092",
            "SLICEWISE_REDIS_URL": "redis://user:secret@store:6400/0,redis://store:6401/0",
            "SLICEWISE_WAREHOUSE": "s3://bucket/warehouse/",
        }
    )
)


@sw.row_function(output="double")
def weighed(share, stars):  # type: ignore[no-untyped-def]
    return pc.multiply(share, stars)


def manifest() -> dict[str, Any]:
    plays = sw.KafkaSource(
        "plays",
        topic="plays.v1",
        schema={
            "user_id": "string",
            "song_id": "string",
            "seconds": "double",
            "stars": "int64",
            "played_at": "timestamp_us",
        },
        timestamp="played_at",
        max_lateness="1h",
    )
    listening = sw.FeatureView(
        "listening",
        source=plays,
        entity=["user_id"],
        where="stars > 1",
        columns={"long": "seconds > 30", "share": "seconds / 60", "weighed": weighed},
        features=[
            sw.Feature("plays", sw.count(), windows=["1h"]),
            sw.Feature("seconds", sw.sum("share"), windows=["1h", "1d"]),
            sw.Feature("best", sw.argmax("song_id", by="stars"), windows=["1d"]),
            sw.Feature("long", sw.count(where="long"), windows=["1d"]),
            sw.Feature("weighed", sw.sum("weighed"), windows=["1h"]),
        ],
    )
    songs = sw.FeatureView(
        "songs",
        source=plays,
        entity=["song_id"],
        features=[
            sw.Feature("plays", sw.count(), windows=[sw.tumbling("10s"), "1h"]),
            sw.Feature("before", sw.count(), windows=[sw.sliding("1h", offset="1h")]),
            sw.Feature("users", sw.bloom("user_id", capacity=100), windows=["1h"]),
            sw.Feature("latest", sw.last_k("user_id", k=2), windows=["1h"]),
        ],
        emit="songs.windows",
    )
    top = sw.Leaderboard(
        "top", view="songs", by="plays_tumbling_10s", every="10s", k=3, late="correct"
    )
    made: dict[str, Any] = json.loads(plan(Project.of("x", [listening, songs, top])).to_json())
    return made


def steps(job: str, scope: Scope | None = None) -> dict[str, Step]:
    return {step.name: step for step in steps_of(job, manifest(), NAMESPACES, scope)}


def origins(dataset: Dataset) -> dict[str, set[tuple[str, str, bool]]]:
    """Column -> (data set, column, whether its values go in)."""
    return {
        column.name: {(one.dataset, one.column, one.direct) for one in column.origins}
        for column in dataset.columns
    }


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_every_aggregate_names_the_columns_that_it_reads(kind: str) -> None:
    for aggregate in REGISTRY[kind].bound_examples():
        assert set(named_by(aggregate.spec())) == set(aggregate.inputs)


def test_a_features_columns_are_followed_through_computed_ones_to_the_events() -> None:
    (view, _) = steps("stream")[""].outputs
    assert (view.namespace, view.name) == ("redis://store:6400", "listening")
    seen = origins(view)
    chosen = {("plays.v1", "stars", False)}
    assert seen["user_id"] == {("plays.v1", "user_id", True)}
    assert seen["plays_1h"] == chosen
    assert seen["seconds_1h"] == seen["seconds_1d"] == chosen | {("plays.v1", "seconds", True)}
    assert seen["best_1d"] == {("plays.v1", "song_id", True), ("plays.v1", "stars", True)}
    assert seen["long_1d"] == chosen | {("plays.v1", "seconds", True)}


def test_a_row_functions_columns_are_followed_through_computed_ones_to_the_events() -> None:
    (view, _) = steps("stream")[""].outputs
    assert origins(view)["weighed_1h"] == {
        ("plays.v1", "seconds", True),
        ("plays.v1", "stars", True),
    }


def test_windows_that_end_are_published_from_the_topic_and_leaderboards_ranked() -> None:
    published = steps("emit")
    assert published.keys() == {"songs.windows", "top"}
    (topic,) = published["songs.windows"].outputs
    assert [one.name for one in published["songs.windows"].inputs] == ["plays.v1"]
    assert topic.namespace == "kafka://broker-1:9092"
    seen = origins(topic)
    song = {("plays.v1", "song_id", True)}
    assert seen == {
        "entity.song_id": song,
        "values.plays_tumbling_10s": set(),
        "values.plays_1h": set(),
        "values.latest_1h": {("plays.v1", "user_id", True)},
    }
    assert [(one.namespace, one.name) for one in published["top"].outputs] == [
        ("redis://store:6400", "top"),
        ("kafka://broker-1:9092", "top.corrections"),
    ]


def test_the_published_features_are_those_that_the_planner_publishes() -> None:
    deployment = Deployment.from_json(json.dumps(manifest()))
    raw = {unit["storage_fingerprint"]: unit for unit in manifest()["units"]}
    for unit in deployment.units:
        for feature, of_json in zip(
            unit.features, raw[unit.storage_fingerprint]["features"], strict=True
        ):
            expected = feature.window.ends_complete and membership_of(feature.aggregate) is None
            assert is_published(of_json) == expected, feature.column


def test_every_feature_has_its_type_in_the_schema() -> None:
    types = types_of(manifest())
    made = {step.name: step for step in steps_of("stream", manifest(), NAMESPACES, types=types)}
    kinds = {
        f"{view.name}:{column.name}": column.kind
        for view in made[""].outputs
        for column in view.columns
    }
    assert kinds == {
        "listening:user_id": "string",
        "listening:plays_1h": "long",
        "listening:seconds_1h": "double",
        "listening:seconds_1d": "double",
        "listening:best_1d": "string",
        "listening:long_1d": "long",
        "listening:weighed_1h": "double",
        "songs:song_id": "string",
        "songs:plays_tumbling_10s": "long",
        "songs:plays_1h": "long",
        "songs:before_1h_offset_1h": "long",
        "songs:users_1h": "boolean",
        "songs:latest_1h": "array<string>",
    }


def test_a_deployment_that_cannot_be_planned_here_has_no_types() -> None:
    assert types_of({"units": [{"view": "x"}]}) == {}


def test_a_compaction_goes_from_the_topic_over_log_and_slices_to_the_store() -> None:
    compact = steps("compact", Scope(views=("songs",)))
    named = {
        name: ([one.name for one in step.inputs], [one.name for one in step.outputs])
        for name, step in compact.items()
    }
    slices = named["hours"][1]
    assert slices
    assert all(name.startswith("slices.u_") for name in slices)
    assert named == {
        "archive": (["plays.v1"], ["log.plays"]),
        "hours": (["log.plays"], slices),
        "publish": (["log.plays", *slices], ["songs"]),
    }
    assert {one.namespace for one in compact["archive"].inputs} == {"kafka://broker-1:9092"}
    assert {one.namespace for one in compact["hours"].outputs} == {"s3://bucket/warehouse"}
    inputs, outputs = united(list(compact.values()))
    assert [one.name for one in inputs] == ["plays.v1"]
    assert [one.name for one in outputs] == ["log.plays", *slices, "songs"]


def test_a_training_set_names_its_view_its_events_and_its_spine() -> None:
    scope = Scope(features=("listening:seconds_1h",), spine="/rows.csv", out="/set.parquet")
    step = steps("dataset", scope)[""]
    assert [one.name for one in step.inputs] == ["listening", "log.plays", "/rows.csv"]
    (made,) = step.outputs
    assert (made.namespace, made.name) == ("file", "/set.parquet")
    assert origins(made) == {
        "user_id": {("/rows.csv", "user_id", True)},
        "listening:seconds_1h": {
            ("listening", "seconds_1h", True),
            ("log.plays", "seconds", True),
            ("log.plays", "stars", False),
        },
    }


def test_what_a_job_reads_keeps_its_schema_and_no_origins() -> None:
    for step in steps_of("compact", manifest(), NAMESPACES):
        assert all(not column.origins for one in step.inputs for column in one.columns)
    (topic,) = steps("stream")[""].inputs
    assert {column.name: column.kind for column in topic.columns}["seconds"] == "double"


def test_no_user_and_no_password_is_in_a_name() -> None:
    assert "secret" not in repr(NAMESPACES)


def test_a_job_that_makes_no_data_of_other_data_has_no_lineage() -> None:
    assert steps_of("maintain", manifest(), NAMESPACES) == ()
    assert steps_of("compact", {}, NAMESPACES) == ()


@pytest.mark.parametrize(
    ("given", "wanted"), [("PLAINTEXT://b-1:9092", "kafka://b-1:9092"), ("b-1", "kafka://b-1:9092")]
)
def test_a_topic_has_one_namespace(given: str, wanted: str) -> None:
    settings = Settings.load({"SLICEWISE_KAFKA_BOOTSTRAP": given})
    assert Namespaces.of(settings).log == wanted


def test_an_address_of_numbers_and_colons_stands_in_brackets() -> None:
    settings = Settings.load({"SLICEWISE_REDIS_URL": "redis://[::1]:6400/0"})
    assert Namespaces.of(settings).store == "redis://[::1]:6400", Namespaces.of(settings).store


def test_expectations_read_archives_and_write_results() -> None:
    (step,) = steps_of("expect", manifest(), NAMESPACES)
    assert {one.name.partition(".")[0] for one in step.inputs} == {"log"}
    assert [one.name for one in step.outputs] == ["ops.checks"]
