"""Descriptions and tags travel with the deployment, are found by a search, and change nothing that
is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import changed, descriptions, matching
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.sql.python_form import python_form

WORDS = {"description": "What a shop's customers pay", "tags": ["pii", "gold"]}


def planned(
    project: str = "shop",
    *,
    source: dict[str, Any] | None = None,
    view: dict[str, Any] | None = None,
    feature: str | None = None,
    rest: dict[str, Any] | None = None,
) -> Deployment:
    orders = sw.KafkaSource(
        "orders",
        schema={"user": "string", "amount": "double", "paid_at": "timestamp_us"},
        timestamp="paid_at",
        **source or {},
    )
    spend = sw.Feature("spend", sw.sum("amount"), windows=["1h", "10m"], description=feature)
    of = sw.FeatureView(
        f"spending_{project}", source=orders, entity=["user"], features=[spend], **view or {}
    )
    ref = f"{of.name}:spend_1h"
    paid = sw.FeatureSet(f"paid_{project}", features=[ref], **rest or {})
    top = sw.Leaderboard(f"top_{project}", view=of, by="spend_1h", every="1m", **rest or {})
    return plan(Project.of(project, [of, paid, top]))


def test_words_change_nothing_that_is_stored_and_travel_with_the_deployment() -> None:
    bare = planned()
    given = planned(source=WORDS, view=WORDS, feature="All payments", rest=WORDS)
    assert (given.sources, given.units) == (bare.sources, bare.units)
    assert (given.feature_sets, given.leaderboards) == (bare.feature_sets, bare.leaderboards)
    assert "described" not in json.loads(bare.to_json())
    assert Deployment.from_json(given.to_json()) == given
    assert Deployment.from_json(given.to_json()).digest == given.digest != bare.digest
    assert [(one.kind, one.name) for one in given.described] == [
        ("feature", "spending_shop:spend"),
        ("feature set", "paid_shop"),
        ("leaderboard", "top_shop"),
        ("source", "orders"),
        ("view", "spending_shop"),
    ]
    view = given.description("view", "spending_shop")
    assert view is not None
    assert (view.description, view.tags) == (WORDS["description"], ("gold", "pii"))


def test_a_search_meets_words_and_tags_and_a_person_reads_them() -> None:
    every = descriptions(planned(view=WORDS, feature="In euros"))
    assert [one.name for one in matching(every, "CUSTOMERS pii")] == ["spending_shop"]
    (view,) = matching(every, "euros")
    assert [feature.description for feature in view.features] == ["In euros", "In euros"]
    assert view.to_json()["tags"] == ("gold", "pii")
    assert matching(every, "silver") == ()


def test_the_history_tells_which_words_changed() -> None:
    before = planned(view=WORDS, feature="In euros")
    after = planned(source=WORDS, view={"description": "Other", "tags": ["pii"]})
    effects = {(one.kind, one.name): one.differences for one in changed(after, before)}
    assert effects == {
        ("source", "orders"): ("it is described otherwise", "the tags are gold, pii, were none"),
        ("view", "spending_shop"): (
            "it is described otherwise",
            "the tags are pii, were gold, pii",
            "spend_1h is described otherwise",
            "spend_10m is described otherwise",
        ),
    }


def test_each_project_keeps_its_words_and_a_source_has_those_of_who_declared_it_last() -> None:
    shop = planned("shop", source=WORDS, view=WORDS)
    till = planned("till", source={"description": "From tills"}, rest=WORDS)
    both = joined(till, shop)
    assert {(one.kind, one.name) for one in both.described} == {
        ("source", "orders"),
        ("view", "spending_shop"),
        ("feature set", "paid_till"),
        ("leaderboard", "top_till"),
    }
    orders = both.description("source", "orders")
    assert orders is not None
    assert orders.description == "From tills"
    again = joined(till, both)
    assert again.digest == both.digest, "what stands is no new deployment"
    # a project without words takes none away from the others
    left = joined(planned("till"), both)
    assert [(one.kind, one.name) for one in left.described] == [("view", "spending_shop")]
    whole = Deployment.from_json(both.to_json())
    assert whole == both


def test_python_that_is_printed_declares_the_same_words() -> None:
    text = (
        "CREATE SOURCE orders (user VARCHAR, amount DOUBLE, paid_at TIMESTAMP_US) "
        "WITH (timestamp = 'paid_at', description = 'A ''shop''', tags = 'pii, gold');"
        "CREATE FEATURE VIEW spending WITH (description = 'Sums', tags = 'gold') AS SELECT user, "
        "sum(amount) OVER (PARTITION BY user ORDER BY SLICE(paid_at) RANGE INTERVAL '1' HOUR "
        "PRECEDING) AS spend_1h FROM orders"
    )
    (view,) = sw.sql_views(text)
    assert (view.source.description, view.source.tags) == ("A 'shop'", ("gold", "pii"))
    assert (view.description, view.tags) == ("Sums", ("gold",))
    names: dict[str, Any] = {"sw": sw}
    exec(python_form(view), names)  # it is ours
    assert plan(Project.of("p", [names["spending"]])) == plan(Project.of("p", [view]))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"description": "  "}, "description is"),
        ({"description": 7}, "description is 7"),
        ({"description": "x" * 4_001}, "4001 characters"),
        ({"tags": "pii"}, "tags is"),
        ({"tags": ["two words"]}, "is no tag"),
        ({"tags": ["pii", "PII"]}, "PII"),
        ({"tags": [""]}, "is no tag"),
    ],
)
def test_words_that_say_nothing_are_refused_where_they_are_written(
    wrong: dict[str, Any], what: str
) -> None:
    with pytest.raises(DefinitionError, match=what):
        planned(source=wrong)
    with pytest.raises(DefinitionError, match=what):
        planned(view=wrong)
    with pytest.raises(DefinitionError, match=what):
        planned(rest=wrong)
