"""A data set uses the views that it has features of, and the feature sets that it has whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.lifecycle.registry.uses import packed_uses, unpacked_uses, uses_of, values_text
from slicewise.stores.lake.kept import RecordedSet
from tests.unit.training.world import PLAYS

USERS = sw.FeatureView(
    "users",
    source=PLAYS,
    entity=["user"],
    features=[sw.Feature("n", sw.count(), ["1h"]), sw.Feature("stars", sw.sum("stars"), ["1h"])],
)
EVERYONE = sw.FeatureView(
    "everyone", source=PLAYS, entity=[], features=[sw.Feature("n", sw.count(), ["1h"])]
)
CHURN = sw.FeatureSet("churn", features=["users:n_1h", "everyone:n_1h"])
SAME_NAME = sw.FeatureSet("users", features=["users:stars_1h"])
DEPLOYMENT = plan(Project("test", (USERS, EVERYONE), (CHURN, SAME_NAME)))
NEWEST = datetime(2026, 11, 30, 12, tzinfo=UTC)


def made(hours: int, *refs: str, least: int = 0) -> RecordedSet:
    """A data set of so many hours ago, whose columns have this least value."""
    statistics = {ref: {"nulls": 0, "min": least, "mean": 0.5} for ref in refs}
    return RecordedSet(f"set {hours}", NEWEST - timedelta(hours=hours), 7, refs, statistics)


SETS = (
    made(0, "users:n_1h", least=1),
    made(1, "users:n_1h", "users:stars_1h", "everyone:n_1h", least=2),
    made(2, "users:stars_1h", "users_2:n_1h", least=3),
    made(3, "users_2:n_1h"),
)


def test_a_view_has_the_sets_with_some_feature_of_it_and_a_feature_set_those_with_all() -> None:
    named = uses_of("users", DEPLOYMENT, SETS)
    assert set(named) == {"view", "feature set"}
    assert [one.name for one in named["view"]] == ["set 0", "set 1", "set 2"]
    assert [one.name for one in named["feature set"]] == ["set 1", "set 2"]
    assert [one.name for one in uses_of("churn", DEPLOYMENT, SETS)["feature set"]] == ["set 1"]
    assert uses_of("plays", DEPLOYMENT, SETS) == {}, "nobody builds a set of a source"


def test_a_column_has_its_statistics_of_the_newest_set_that_counted_it() -> None:
    view = uses_of("users", DEPLOYMENT, SETS)["view"]
    counted = [{column: one["min"] for column, one in use.statistics.items()} for use in view]
    assert counted == [{"n_1h": 1}, {"stars_1h": 2}, {}]
    assert values_text(view[0].statistics["n_1h"]) == "nulls 0, min 1, mean 0.5"


def test_another_process_gives_the_same() -> None:
    for name in ("users", "churn", "plays"):
        uses = uses_of(name, DEPLOYMENT, SETS)
        assert unpacked_uses(packed_uses(uses)) == uses
