"""Projects share one platform: applying one leaves the others' views, sets and sources as they
stand."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan


def source(name: str = "plays", **changed: str) -> sw.KafkaSource:
    return sw.KafkaSource(
        name,
        schema={"user": "string", "at_us": "timestamp_us", **changed},
        timestamp="at_us",
        max_lateness="1h",
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
    assert [declared.name for declared in both.sources] == ["plays"]
    assert Deployment.from_json(both.to_json()) == both


def test_applying_a_project_again_replaces_its_own_views_alone() -> None:
    both = joined(deployment("b", "two"), deployment("a", "one"))
    again = joined(deployment("b", "three"), both)
    assert again.views == ("one", "three")
    assert [feature_set.name for feature_set in again.feature_sets] == ["one_set", "three_set"]


def test_applying_what_stands_gives_the_same_deployment() -> None:
    both = joined(deployment("b", "two"), deployment("a", "one"))
    assert joined(deployment("b", "two"), both).digest == both.digest


def test_the_order_in_which_projects_are_applied_makes_no_deployment_of_its_own() -> None:
    first = joined(deployment("a", "one", source("songs")), None)
    both = joined(deployment("b", "two"), first)
    assert joined(deployment("a", "one", source("songs")), both).digest == both.digest
    assert (
        joined(deployment("a", "one", source("songs")), joined(deployment("b", "two"), None)).digest
        == both.digest
    )


def test_the_name_of_another_projects_view_is_refused() -> None:
    with pytest.raises(DefinitionError, match="view 'one' is deployed by project 'a'"):
        joined(deployment("b", "one"), deployment("a", "one"))


def test_a_column_that_no_view_of_another_project_reads_may_be_added_and_go() -> None:
    deployed = deployment("a", "one", source(song="string"))
    for read in (source(), source(song="string", artist="string")):
        both = joined(deployment("b", "two", read), deployed)
        assert both.opening == ("plays",)
        assert {unit.storage_fingerprint for unit in deployed.units} < {
            unit.storage_fingerprint for unit in both.units
        }
        assert Deployment.from_json(both.to_json()) == both


def test_a_column_that_another_projects_view_reads_stays_as_it_is() -> None:
    def moved(path: str) -> sw.KafkaSource:
        schema = {"user": "string", "at_us": "timestamp_us"}
        return sw.KafkaSource(
            "plays", schema=schema, timestamp="at_us", max_lateness="1h", paths={"user": path}
        )

    deployed = deployment("a", "one", moved("$.user"))
    with pytest.raises(
        DefinitionError, match="column 'user' of source 'plays' changes, and view 'one' reads it"
    ):
        joined(deployment("b", "two", moved("$.who.user")), deployed)
    assert joined(deployment("a", "one", moved("$.who.user")), deployed).opening == ("plays",)


def test_a_column_of_another_type_is_refused_whoever_changes_it() -> None:
    for project in ("a", "b"):
        with pytest.raises(
            DefinitionError, match="column 'song' of source 'plays' is long, and what is archived"
        ):
            joined(
                deployment(project, f"{project}_view", source(song="long")),
                deployment("a", "one", source(song="string")),
            )


def test_another_dedupe_is_taken_where_no_other_project_reads_the_source() -> None:
    def counted_once(most: int) -> sw.KafkaSource:
        schema = {"user": "string", "id": "string", "at_us": "timestamp_us"}
        rule = sw.dedupe("id", most=most)
        return sw.KafkaSource(
            "plays", schema=schema, timestamp="at_us", max_lateness="1h", dedupe=rule
        )

    deployed = deployment("a", "one", counted_once(10))
    after = joined(deployment("a", "other", counted_once(20)), deployed)
    assert after.views == ("other",)
    assert [declared.dedupe.most for declared in after.sources if declared.dedupe is not None] == [
        20
    ]
    with pytest.raises(
        DefinitionError, match="another dedupe, and views of other projects, or versions that stay"
    ):
        joined(deployment("b", "two", counted_once(20)), deployed)
    assert joined(deployment("b", "two", counted_once(10)), deployed).views == ("one", "two")


def test_a_topic_that_another_project_reads_by_another_source_is_refused() -> None:
    def named(name: str) -> sw.KafkaSource:
        schema = {"user": "string", "at_us": "timestamp_us"}
        return sw.KafkaSource(
            name, topic="plays", schema=schema, timestamp="at_us", max_lateness="1h"
        )

    deployed = deployment("a", "one", named("plays"))
    with pytest.raises(
        DefinitionError,
        match="topic 'plays' is read by source 'plays', which views of other projects use",
    ):
        joined(deployment("b", "two", named("songs")), deployed)
    assert [
        declared.name
        for declared in joined(deployment("a", "three", named("songs")), deployed).sources
    ] == ["songs"]


def test_a_project_does_not_change_the_fingerprints_of_its_units() -> None:
    (first,), (second,) = deployment("a", "one").units, deployment("b", "one").units
    assert first.storage_fingerprint == second.storage_fingerprint
    assert first.definition_fingerprint == second.definition_fingerprint
