"""All that a name has meant is told from the deployments that stood, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slicewise.errors import UnknownName
from slicewise.features.plan.changes.history import Stood, changed, versions
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from tests.unit.features.plan.listening import COUNTS, SOURCE, SUMS, feature_set

MEANS = 'sw.Feature("seconds", sw.mean("seconds"), windows=["1h"])'
DAYS = 'sw.Feature("plays", sw.count(), windows=["1h", "1d"])'


def view(*features: str, owner: str = "", name: str = "listening") -> str:
    owned = f'owner="{owner}", ' if owner else ""
    return (
        f'{name} = sw.FeatureView("{name}", source=plays, entity=["user_id"], {owned}'
        f"features=[{', '.join(features)}])\n"
    )


@pytest.fixture
def deployed(tmp_path: Path) -> Deployed:
    return Deployed(tmp_path / "features.py")


class Deployed:
    """Deployments of a project that changes."""

    def __init__(self, file: Path) -> None:
        self.file, self.source = file, SOURCE

    def of(self, *definitions: str) -> Deployment:
        """The deployment of these definitions over the source."""
        self.file.write_text(self.source + "".join(definitions))
        return plan(load_project(self.file))

    def stood(self, *texts: Sequence[str]) -> tuple[Stood, ...]:
        """Deployments one after another, a second apart."""
        return tuple(
            Stood(number, number * 1_000_000, f"person {number}", "apply", self.of(*text))
            for number, text in enumerate(texts, 1)
        )


def test_each_deployment_says_what_it_brought_changed_and_removed(deployed: Deployed) -> None:
    first = deployed.of(view(COUNTS))
    second = deployed.of(view(COUNTS, SUMS), view(COUNTS, name="hearing"))
    third = deployed.of(view(COUNTS, name="hearing"))
    assert [(c.name, c.kind, c.effect) for c in changed(first, None)] == [
        ("plays", "source", "new"),
        ("listening", "view", "new"),
    ]
    added, new = changed(second, first)
    assert (added.name, added.effect) == ("listening", "changed")
    assert "seconds_1h is added" in added.differences
    assert (new.name, new.effect) == ("hearing", "new")
    assert [(c.name, c.effect) for c in changed(third, second)] == [("listening", "removed")]
    assert changed(third, third) == ()


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        (
            view(COUNTS, MEANS),
            "seconds_1h is mean(column='seconds') over 1h, was sum(column='seconds') over 1h",
        ),
        (view(COUNTS), "seconds_1h is removed"),
        (view(DAYS, SUMS), "plays_1d is added"),
        (view(COUNTS, SUMS, owner="risk"), "the owner is risk, was nobody"),
    ],
    ids=["aggregate", "removed", "window", "owner"],
)
def test_a_view_says_what_became_otherwise(after: str, difference: str, deployed: Deployed) -> None:
    (change,) = changed(deployed.of(after), deployed.of(view(COUNTS, SUMS)))
    assert difference in change.differences


def test_a_view_whose_event_list_another_view_widens_is_not_another_view(
    deployed: Deployed,
) -> None:
    def exact(name: str, length: str) -> str:
        return view(
            f'sw.Feature("plays", sw.count(), windows=[sw.exact_range("{length}")])', name=name
        )

    then = deployed.of(exact("listening", "1h"))
    now = deployed.of(exact("listening", "1h"), exact("hearing", "6h"))
    assert [(c.name, c.effect) for c in changed(now, then)] == [("hearing", "new")]
    assert [(c.name, c.effect) for c in changed(then, now)] == [("hearing", "removed")]
    wider = deployed.of(exact("listening", "2h"))
    assert [(c.name, c.effect) for c in changed(wider, then)] == [("listening", "changed")]


def test_expectations_say_which_came_and_went(deployed: Deployed) -> None:
    expected = 'expect=[sw.expect("expect_column_values_to_not_be_null", column="user_id")], '
    then = deployed.of(view(COUNTS))
    deployed.source = SOURCE.replace("timestamp=", f"{expected}timestamp=")
    (change,) = changed(deployed.of(view(COUNTS)), then)
    assert (change.kind, change.name, change.effect) == ("expectations", "events.plays", "new")


def test_feature_sets_say_which_features_came_and_went(deployed: Deployed) -> None:
    views = view(COUNTS, SUMS)
    then = deployed.of(views, feature_set("listening:plays_1h"))
    now = deployed.of(views, feature_set("listening:seconds_1h"))
    (change,) = changed(now, then)
    assert (change.kind, change.differences) == (
        "feature set",
        ("listening:seconds_1h is added", "listening:plays_1h is removed"),
    )


def test_a_name_has_a_version_for_each_definition_and_none_for_what_left_it(
    deployed: Deployed,
) -> None:
    stood = deployed.stood(
        [view(COUNTS)],
        [view(COUNTS), view(COUNTS, name="hearing")],
        [view(COUNTS, SUMS, owner="risk")],
        [view(COUNTS, name="hearing")],
        [view(COUNTS)],
    )
    shown = versions(stood, "listening")
    assert [(v.number, v.deployment_version, v.by, v.owner) for v in shown] == [
        (1, 1, "person 1", ""),
        (2, 3, "person 3", "risk"),
        (3, 5, "person 5", ""),
    ]
    assert [v.until_us for v in shown] == [3_000_000, 4_000_000, None]
    assert shown[0].differences == shown[2].differences == ()
    assert versions(stood, "plays")[0].until_us is None


def test_a_name_that_was_never_deployed_is_told_with_those_that_are_near(
    deployed: Deployed,
) -> None:
    with pytest.raises(UnknownName, match="did you mean listening"):
        versions(deployed.stood([view(COUNTS)]), "listenin")
