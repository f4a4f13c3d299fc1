"""A feature's condition is a computed column of its unit: equal conditions are one, and nobody else
has its name."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise import AGGREGATES
from slicewise.aggregates import Aggregate
from slicewise.aggregates.combinators.conditional import only
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.reading.batched import finish_of, form_of

START = 1_700_000_000_000_000
plays = sw.KafkaSource(
    "plays",
    schema={
        "user": "string",
        "country": "string",
        "seconds": "double",
        "stars": "long",
        "liked": "boolean",
        "odd": "double",
        "played_at": "timestamp_us",
    },
    timestamp="played_at",
    allow_nan=["odd"],
)


def view(**aggregates: Aggregate) -> sw.FeatureView:
    return sw.FeatureView(
        "listening",
        source=plays,
        entity=["user"],
        columns={"minutes": "seconds / 60"},
        features=[
            sw.Feature(name, aggregate, windows=["1h"]) for name, aggregate in aggregates.items()
        ],
    )


def unit(**aggregates: Aggregate) -> StorageUnit:
    (storage_unit,) = plan(Project.of("music", [view(**aggregates)])).units
    return storage_unit


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_takes_a_condition(name: str) -> None:
    parameter = inspect.signature(getattr(sw, name)).parameters["where"]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert parameter.default is None


def test_equal_conditions_are_one_column_and_one_partial_however_they_are_written() -> None:
    storage_unit = unit(
        a=sw.sum("minutes", where="liked AND stars >= 4"),
        b=sw.mean("minutes", where="(liked)   and (stars>=4)"),
        c=sw.count(where="stars >= 4 AND liked"),  # another tree
    )
    assert len(storage_unit.layout.partials) == 2
    assert [name.startswith("_where_") for name, _ in storage_unit.columns] == [False, True, True]


def test_spelling_changes_no_fingerprint_and_another_condition_changes_both() -> None:
    one, same, other = (
        unit(a=sw.count(where=text)) for text in ("stars >= 4", "stars>=4", "stars >= 3")
    )
    assert (one.storage_fingerprint, one.definition_fingerprint) == (
        same.storage_fingerprint,
        same.definition_fingerprint,
    )
    assert one.storage_fingerprint != other.storage_fingerprint
    assert one.definition_fingerprint != other.definition_fingerprint


def test_a_deployment_comes_back_with_its_conditions() -> None:
    views = [
        view(
            a=sw.bucketed(sw.sum("minutes", where="liked"), by="country"),
            b=sw.histogram("seconds", edges=[0, 1]),
        )
    ]
    deployment = plan(Project.of("music", views))
    assert Deployment.from_json(deployment.to_json()) == deployment


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("stars + 1", "a condition is boolean, this is long"),
        ("starz > 1", "unknown column 'starz'"),
        ("sum(stars) > 1", "an aggregate is not row logic"),
        ("liked AND", "is no expression: something is missing"),
    ],
)
def test_a_condition_that_is_none_is_refused_with_its_feature_and_place(
    where: str, message: str
) -> None:
    with pytest.raises(
        DefinitionError, match=rf"{message}(.|\n)*where of feature 'a' of view 'listening'"
    ):
        unit(a=sw.sum("minutes", where=where))
    with pytest.raises(DefinitionError, match=message):
        unit(a=sw.bucketed(sw.sum("minutes", where=where), by="country"))


def test_a_condition_may_read_what_allows_nan_and_an_aggregate_may_not() -> None:
    assert unit(a=sw.count("odd", where="odd > 1"))
    with pytest.raises(DefinitionError, match="allows NaN and infinities"):
        unit(a=sw.sum("odd", where="odd > 1"))


def test_no_column_of_a_user_can_have_the_name_of_a_condition() -> None:
    name = unit(a=sw.count(where="liked")).columns[0][0]
    with pytest.raises(DefinitionError, match="is no name of a computed column"):
        sw.FeatureView("v", source=plays, entity=["user"], columns={name: "liked"},
                       features=[sw.Feature("a", sw.count(), windows=["1h"])])  # fmt: skip


def test_evaluate_answers_conditions_buckets_and_bins() -> None:
    rows = [
        ("fr", 60.0, 5, True),
        ("fr", 120.0, 4, None),
        ("it", 30.0, None, True),
        (None, 600.0, 5, True),
    ]
    events: list[dict[str, Any]] = [
        {
            "user": "u",
            "country": c,
            "seconds": s,
            "stars": n,
            "liked": liked,
            "odd": None,
            "played_at": START + i,
        }
        for i, (c, s, n, liked) in enumerate(rows)
    ]
    view_of_conditions = view(
        liked=sw.sum("minutes", where="liked"),
        rated=sw.count(where="stars >= 4"),
        countries=sw.count_by("country"),
        capped=sw.count_by("country", max_categories=1),
        liked_in=sw.bucketed(
            sw.sum("minutes", where="liked"), by="country", where="stars IS NOT NULL"
        ),
        spread=sw.histogram("seconds", edges=[50, 100, 150]),
    )
    (answer,) = sw.evaluate(
        view_of_conditions, events, [{"user": "u", "at": START + 60_000_000}]
    ).to_pylist()
    assert {
        name: answer[f"{name}_1h"]
        for name in ("liked", "rated", "countries", "capped", "liked_in", "spread")
    } == {
        "liked": 11.5,
        "rated": 3,
        "countries": [{"key": "fr", "value": 2}, {"key": "it", "value": 1}],
        "capped": None,
        "liked_in": [{"key": "fr", "value": 1.0}],
        "spread": {"under": 1, "bins": [1, 1], "over": 1},
    }


def test_what_conditions_chose_combines_with_what_is_stored_without_one() -> None:
    types = {
        "x": pa.float64(),
        "y": pa.float64(),
        "s": pa.string(),
        "t": pa.string(),
        "i": pa.int64(),
        "w": pa.bool_(),
    }
    bare, chosen = sw.sum("x").bind(types), only(sw.sum("y"), "w", "w").bind(types)
    assert (form_of(bare), finish_of(bare)) == (form_of(chosen), finish_of(chosen))
    by = {key: sw.bucketed(sw.last_k("x", k=2), by=key).bind(types) for key in "sti"}
    assert form_of(by["s"]) == form_of(by["t"]) != form_of(by["i"])
    fewer = sw.bucketed(sw.last_k("x", k=2), by="s", max_buckets=3).bind(types)
    assert (
        len(
            {
                form_of(aggregate)
                for aggregate in (
                    by["s"],
                    fewer,
                    sw.bucketed(sw.last_k("x", k=1), by="s").bind(types),
                )
            }
        )
        == 3
    )
