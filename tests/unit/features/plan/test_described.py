"""Descriptions and tags travel with the deployment, are found by a search, and change nothing that
is stored."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import (
    changed,
    changes,
    descriptions,
    leaderboard_changes,
    matching,
)
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
            "spend is described otherwise",
        ),
    }
    # of a feature that is new, that alone is said
    bare = planned()
    more = sw.Feature("n", sw.count(), windows=["1h"], description="How many")
    view = sw.FeatureView(
        "spending_shop",
        source=sw.KafkaSource(
            "orders",
            schema={"user": "string", "amount": "double", "paid_at": "timestamp_us"},
            timestamp="paid_at",
        ),
        entity=["user"],
        features=[sw.Feature("spend", sw.sum("amount"), windows=["1h", "10m"]), more],
    )
    wider = plan(Project.of("shop", [view]))
    words_of = {one.name: one.differences for one in changed(wider, bare)}["spending_shop"]
    assert "n_1h is added" in words_of
    assert not any("described" in words for words in words_of)


def test_each_project_keeps_its_words_and_a_source_has_those_of_all() -> None:
    shop = planned("shop", source=WORDS, view=WORDS)
    till = planned("till", source={"description": "From tills", "tags": ["till"]}, rest=WORDS)
    both = joined(till, shop)
    assert {(one.kind, one.name, one.project) for one in both.described} == {
        ("source", "orders", "shop"),
        ("source", "orders", "till"),
        ("view", "spending_shop", "shop"),
        ("feature set", "paid_till", "till"),
        ("leaderboard", "top_till", "till"),
    }
    orders = both.description("source", "orders")
    assert orders is not None
    assert (orders.description, orders.tags) == (WORDS["description"], ("gold", "pii", "till"))
    assert Deployment.from_json(both.to_json()) == both
    # applying in turns what stands is no new deployment, whoever describes the source
    for again in (shop, till):
        assert joined(again, both).digest == both.digest
    # a project without words takes none away from the others, and takes its own back
    silent = joined(planned("till"), both)
    assert {one.project for one in silent.described} == {"shop"}
    assert joined(shop, silent).digest == silent.digest
    assert joined(planned("shop"), silent).described == ()


def test_one_source_that_is_described_in_two_ways_is_refused() -> None:
    one, two = (
        sw.FeatureView(
            name,
            source=sw.KafkaSource(
                "orders",
                schema={"user": "string", "paid_at": "timestamp_us"},
                timestamp="paid_at",
                description=name,
            ),
            entity=["user"],
            features=[sw.Feature("n", sw.count(), windows=["1h"])],
        )
        for name in ("one", "two")
    )
    with pytest.raises(DefinitionError, match="two different sources are named 'orders'"):
        plan(Project.of("shop", [one, two]))


def test_a_plan_says_what_changes_though_no_answer_does() -> None:
    before, after = planned(view=WORDS), planned(view={"owner": "shop"}, rest={"owner": "ana"})
    reasons = {change.view: (change.kind, change.reason) for change in changes(after, before)}
    assert reasons["spending_shop"] == (
        "unchanged",
        "; ".join(
            (
                "the owner is shop, was nobody",
                "it is described otherwise",
                "the tags are none, were gold, pii",
            )
        ),
    )
    (ranked,) = leaderboard_changes(planned(rest={"tags": ["gold"]}), planned())
    assert (ranked.kind, ranked.reason) == ("unchanged", "the tags are gold, were none")
    assert {change.reason for change in changes(before, before)} == {"nothing to do"}


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


@pytest.mark.parametrize("wrong", ["", "a,", "two words"])
def test_tags_that_are_none_are_refused_at_their_place_in_sql(wrong: str) -> None:
    text = (
        "CREATE SOURCE orders (user VARCHAR, paid_at TIMESTAMP_US) "
        f"WITH (timestamp = 'paid_at', tags = '{wrong}', owner = 'me');"
        "SELECT user, count(*) OVER (PARTITION BY user ORDER BY SLICE(paid_at) RANGE INTERVAL '1' "
        "HOUR PRECEDING) FROM orders"
    )
    with pytest.raises(DefinitionError, match="is no tag") as caught:
        sw.sql_views(text)
    placed = re.search(r"line 1, column (\d+)", str(caught.value.where))
    assert placed is not None
    column = int(placed[1])
    assert text[column - 1 :].startswith(f"'{wrong}'")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"description": "  "}, "description is"),
        ({"description": 7}, "description is 7"),
        ({"description": "x" * 4_001}, "4001 characters"),
        ({"description": "clears\x1b[2J the screen"}, "the character"),
        ({"description": "half \ud83d"}, "the character"),
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
