"""Projects share one platform: applying one leaves the others' views, sets and sources as they stand."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.definitions import Project
from slicewise.features.plan import Deployment, plan
from slicewise.features.projects import joined


def source(name: str = "plays", **changed: str) -> sw.KafkaSource:
    return sw.KafkaSource(
        name, schema={"user": "string", "at_us": "timestamp_us", **changed}, timestamp="at_us", max_lateness="1h"
    )


def deployment(project: str, view: str, read: sw.KafkaSource | None = None) -> Deployment:
    features = [sw.Feature("events", sw.count(), windows=["10m"])]
    made = sw.FeatureView(view, source=read or source(), entity=["user"], features=features)
    named = sw.FeatureSet(f"{view}_set", features=[f"{view}:events_10m"])
    return plan(Project.of(project, [made, named]))


def test_a_project_that_is_applied_leaves_the_views_of_another_as_they_stand() -> None:
    both = joined(deployment("b", "two"), joined(deployment("a", "one"), None))
    assert both.views == ("one", "two")
    assert both.project == "a, b"
    assert [each.name for each in both.sources] == ["plays"]
    assert Deployment.from_json(both.to_json()) == both


def test_applying_a_project_again_replaces_its_own_views_alone() -> None:
    both = joined(deployment("b", "two"), deployment("a", "one"))
    again = joined(deployment("b", "three"), both)
    assert again.views == ("one", "three")
    assert [each.name for each in again.feature_sets] == ["one_set", "three_set"]


def test_applying_what_stands_gives_the_same_deployment() -> None:
    both = joined(deployment("b", "two"), deployment("a", "one"))
    assert joined(deployment("b", "two"), both).digest == both.digest


def test_the_order_in_which_projects_are_applied_makes_no_deployment_of_its_own() -> None:
    first = joined(deployment("a", "one", source("songs")), None)
    both = joined(deployment("b", "two"), first)
    assert joined(deployment("a", "one", source("songs")), both).digest == both.digest
    assert joined(deployment("a", "one", source("songs")), joined(deployment("b", "two"), None)).digest == both.digest


def test_the_name_of_another_projects_view_is_refused() -> None:
    with pytest.raises(DefinitionError, match="view 'one' is deployed by project 'a'"):
        joined(deployment("b", "one"), deployment("a", "one"))


def test_a_source_with_another_schema_under_a_deployed_name_is_refused() -> None:
    changed = source(song="string")
    for project in ("a", "b"):
        with pytest.raises(DefinitionError, match="source 'plays' is deployed with another schema"):
            joined(deployment(project, f"{project}_view", changed), deployment("a", "one"))


def test_a_project_does_not_change_the_fingerprints_of_its_units() -> None:
    (first,), (second,) = deployment("a", "one").units, deployment("b", "one").units
    assert first.storage_fingerprint == second.storage_fingerprint
    assert first.definition_fingerprint == second.definition_fingerprint
