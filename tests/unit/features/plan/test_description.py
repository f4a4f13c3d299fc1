"""A definition is described in words that a search finds, with what uses it."""

from __future__ import annotations

import pytest

from slicewise.features.plan.changes.description import Description, descriptions, matching
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project

DEFINITIONS = """
import slicewise as sw

payments = sw.KafkaSource(
    "payments",
    schema={"card": "string", "amount": "double", "country": "string", "paid_at": "timestamp_us"},
    timestamp="paid_at",
    owner="team-ledger",
)
per_card = sw.FeatureView(
    "per_card",
    source=payments,
    entity=["card"],
    where="amount > 0",
    columns={"cents": "amount * 100"},
    owner="team-risk",
    features=[
        sw.Feature("amount", sw.mean("amount"), windows=["10m", "1h"]),
        sw.Feature("cents", sw.sum("cents"), windows=["1h"]),
    ],
)
per_country = sw.FeatureView(
    "per_country",
    source=payments,
    entity=["country"],
    slice="5s",
    emit="countries.windows",
    features=[sw.Feature("payments", sw.count(), windows=[sw.tumbling("5s"), "10s"])],
)
fraud = sw.FeatureSet("fraud", features=["per_card:amount_10m"], owner="team-risk")
busiest = sw.Leaderboard("busiest", view=per_country, by="payments_10s", k=3, every="5s")
"""


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> tuple[Description, ...]:
    file = tmp_path_factory.mktemp("project") / "features.py"
    file.write_text(DEFINITIONS)
    return descriptions(plan(load_project(file)))


def named(every: tuple[Description, ...], name: str) -> Description:
    (one,) = (one for one in every if one.name == name)
    return one


def test_all_that_is_declared_is_described_once(every: tuple[Description, ...]) -> None:
    assert [(one.kind, one.name) for one in every] == [
        ("source", "payments"),
        ("view", "per_card"),
        ("view", "per_country"),
        ("feature set", "fraud"),
        ("leaderboard", "busiest"),
    ]


def test_a_view_says_what_it_computes_of_what_and_for_whom(every: tuple[Description, ...]) -> None:
    view = named(every, "per_card")
    assert (view.owner, view.facts["source"], view.facts["where"]) == (
        "team-risk",
        "payments",
        "amount > 0",
    )
    assert view.facts["columns"] == "cents = amount * 100"
    assert [(one.column, one.window) for one in view.features] == [
        ("amount_10m", "10m"),
        ("amount_1h", "1h"),
        ("cents_1h", "1h"),
    ]
    assert view.uses == ("feature set fraud",)
    assert named(every, "per_country").uses == ("leaderboard busiest", "topic countries.windows")
    assert named(every, "payments").uses == ("view per_card", "view per_country")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("MEAN amount", ["per_card"]),
        ("team-risk", ["per_card", "fraud"]),
        ("country", ["per_country", "payments", "busiest"]),
        ("tumbling", ["per_country"]),
        ("payments_10s", ["per_country", "busiest"]),
        ("mean tumbling", []),
        ("countries.windows", []),
    ],
)
def test_a_search_wants_all_words_and_names_come_first(
    text: str, names: list[str], every: tuple[Description, ...]
) -> None:
    assert [one.name for one in matching(every, text)] == names
