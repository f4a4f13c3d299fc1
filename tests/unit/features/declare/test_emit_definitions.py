"""A view's publications are said in its definition, and bear on nothing that is stored or
served."""

from __future__ import annotations

from typing import Any

import pytest

import slicewise as sw
from slicewise.emission.ticks import emitted_views
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import published
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.sql.python_form import view_form

PLAYS = sw.KafkaSource(
    "plays", schema={"user": "string", "song": "string", "t": "timestamp_us"}, timestamp="t"
)


def view(*features: sw.Feature, **given: Any) -> sw.FeatureView:
    declared = features or (sw.Feature("n", sw.count(), ["1h", sw.tumbling("10s")]),)
    return sw.FeatureView("v", source=PLAYS, entity=["user"], features=declared, **given)


def deployed(declared: sw.FeatureView, *more: object) -> Deployment:
    return plan(Project.of("p", [declared, *more]))


def test_a_topic_is_enough() -> None:
    deployment = deployed(view(emit="windows"))
    [emitted_view] = emitted_views(deployment, "plays")
    assert (emitted_view.topic, emitted_view.wait_us, emitted_view.corrections_us) == (
        "windows",
        0,
        3_600_000_000,
    )
    assert emitted_view.columns == {"n_1h", "n_tumbling_10s"}
    assert deployment.publishes
    assert Deployment.from_json(deployment.to_json()) == deployment


def test_it_changes_no_fingerprint_and_no_deployment_without() -> None:
    plain, published = (
        deployed(view()),
        deployed(view(emit=sw.Emit("windows", wait="2s", corrections="5m"))),
    )
    assert not plain.publishes
    assert "emission" not in plain.to_json()
    for ours, theirs in zip(plain.units, published.units, strict=True):
        assert ours.storage_fingerprint == theirs.storage_fingerprint
        assert ours.definition_fingerprint == theirs.definition_fingerprint


def test_open_and_shifted_windows_sessions_and_filters_are_left_out() -> None:
    declared = view(
        sw.Feature(
            "n",
            sw.count(),
            [
                sw.tumbling("10s"),
                sw.tumbling("10s", open=True),
                sw.sliding("1h", offset="1d"),
                sw.rows(5),
            ],
        ),
        sw.Feature("gap", sw.count(), [sw.session("30m", max_length="2h")]),
        sw.Feature("heard", sw.bloom("song", capacity=100, error=0.01), ["1h"]),
        emit="windows",
    )
    [emitted_view] = emitted_views(deployed(declared), "plays")
    assert emitted_view.columns == {"n_tumbling_10s"}


def test_a_leaderboard_has_ticks_of_its_own_feature_alone() -> None:
    leaderboard = sw.Leaderboard("top", view="v", by="n_tumbling_10s", k=10, every="10s")
    deployment = deployed(view(), leaderboard)
    [emitted_view] = emitted_views(deployment, "plays")
    assert emitted_view.topic is None
    assert emitted_view.columns == {"n_tumbling_10s"}
    assert deployment.publishes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"emit": "no topic"}, "is no topic name"),
        ({"emit": "plays"}, "the topic that the view reads"),
        ({"emit": sw.Emit("windows", wait="soon")}, "is no duration"),
    ],
)
def test_what_cannot_be_published_to_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        view(**given)


def test_a_view_without_any_such_window_is_refused() -> None:
    with pytest.raises(DefinitionError, match="none of whose results can be published"):
        deployed(view(sw.Feature("n", sw.count(), [sw.rows(5)]), emit="windows"))


def test_the_plan_says_what_ends_when_and_what_it_holds() -> None:
    declared = view(
        sw.Feature("n", sw.count(), ["1h", sw.tumbling("10s")]),
        emit=sw.Emit("out", corrections="5m"),
    )
    assert published(deployed(declared)) == (
        ("v", "to topic out: tumbling_10s every 10s; up to 310 partials of an entity in memory"),
        ("v", "to topic out: 1h every 5m; up to 13 partials of an entity in memory"),
    )
    assert published(deployed(view())) == ()


def test_the_python_form_says_it() -> None:
    assert 'emit=sw.Emit("windows", wait="2s", corrections="5m")' in view_form(
        view(emit=sw.Emit("windows", wait="2s", corrections="5m"))
    )
