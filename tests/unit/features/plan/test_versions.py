"""A changed view is a version beside the live one; promoting and retiring move names and nothing
that is stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from slicewise.emission.ticks import emitted_views
from slicewise.errors import DefinitionError, UnknownName
from slicewise.features.plan.changes.explain import (
    changed,
    changes,
    descriptions,
    published,
    refuse_changed_units,
)
from slicewise.features.plan.changes.projects import promoted, retired, whole
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from tests.support.inputs.seeds import seeds
from tests.unit.features.plan.listening import COUNTS, SOURCE, SUMS, feature_set

EXACT = 'sw.Feature("recent", sw.count(), windows=[sw.exact_range("10m")])'


def view(*features: str, where: str = "", name: str = "listening", more: str = "") -> str:
    chosen = f"where={where!r}, " if where else ""
    return (
        f'{name} = sw.FeatureView("{name}", source=plays, entity=["user_id"], {chosen}{more}'
        f"features=[{', '.join(features)}])\n"
    )


BEST = 'best = sw.Leaderboard("best", view=listening, by="plays_1h", k=3, every="5m")\n'
LONG = "seconds > 30"


class Project:
    """Definitions that are applied one after another."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "features.py"
        self.stands: Deployment | None = None
        self._planned: dict[tuple[str, ...], Deployment] = {}

    def planned(self, *definitions: str) -> Deployment:
        """The definitions by themselves."""
        if definitions not in self._planned:
            self.file.write_text(SOURCE + "".join(definitions))
            self._planned[definitions] = plan(load_project(self.file))
        return self._planned[definitions]

    def applies(self, *definitions: str) -> Deployment:
        """Applies these; what stands then, as a store gives it back."""
        after = whole(self.planned(*definitions), self.stands, probes=True)
        refuse_changed_units(after, self.stands)
        self.stands = Deployment.from_json(after.to_json())
        assert self.stands == after
        return after

    def promotes(self, *names: str) -> Deployment:
        """Promotes these versions; what stands then."""
        assert self.stands is not None
        self.stands = promoted(self.stands, *names)
        assert Deployment.from_json(self.stands.to_json()) == self.stands
        return self.stands


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def stored(deployment: Deployment, name: str) -> set[str]:
    return {unit.storage_fingerprint for unit in deployment.view(name)}


def test_a_changed_view_stands_beside_the_live_one_which_stays_as_it_was(project: Project) -> None:
    first = project.applies(view(COUNTS, EXACT))
    second = project.applies(view(COUNTS, EXACT, where=LONG))
    assert second.views == ("listening", "listening@2")
    assert second.view("listening") == first.view("listening")
    assert second.view("listening@1") == second.view("listening")
    assert not stored(second, "listening") & stored(second, "listening@2"), "slices and list"
    new = [change for change in changes(second, first) if change.view == "listening@2"]
    assert {change.kind for change in new} == {"new"}
    assert "beside listening, which answers as before: where is `seconds > 30`" in new[0].reason


def test_what_is_applied_again_is_the_version_that_stands(project: Project) -> None:
    project.applies(view(COUNTS))
    second = project.applies(view(COUNTS, where=LONG))
    assert project.applies(view(COUNTS, where=LONG)) == second
    third = project.applies(view(COUNTS, where="seconds > 60"))
    assert third.views == ("listening", "listening@2", "listening@3")
    assert project.applies(view(COUNTS, where=LONG)) == third, "it is version 2 already"
    assert project.applies(view(COUNTS)) == third, "it is what is live"


def test_a_promoted_version_keeps_what_it_stored_and_the_one_before_stays_readable(
    project: Project,
) -> None:
    first = project.applies(view(COUNTS), BEST, feature_set("listening:plays_1h"))
    second = project.applies(view(COUNTS, where=LONG), BEST, feature_set("listening:plays_1h"))
    third = project.promotes("listening@2")
    assert stored(third, "listening") == stored(second, "listening@2")
    assert stored(third, "listening@1") == stored(first, "listening")
    assert third.view("listening@2") == third.view("listening")
    assert third.feature_sets == first.feature_sets
    assert third.leaderboards[0].fingerprint != first.leaderboards[0].fingerprint
    reasons = {change.view: change.reason for change in changes(third, second)}
    assert reasons["listening"] == "version 2 is live, with what it stored"
    assert reasons["listening@1"].endswith("stays readable as listening@1")
    assert set(reasons) == {"listening", "listening@1", "slicewise_probes"}
    effects = {change.name: change for change in changed(third, second)}
    assert effects.keys() == {"listening", "best"}
    assert "version 2 is live, was version 1" in effects["listening"].differences
    after = project.applies(view(COUNTS, where=LONG), BEST, feature_set("listening:plays_1h"))
    assert after == third, "the definitions say what is live"
    assert project.promotes("listening@1").views == ("listening", "listening@2")
    assert project.stands is not None
    assert project.stands == second


def test_a_later_version_changes_in_place_where_what_is_stored_answers(project: Project) -> None:
    wide = view(COUNTS, 'sw.Feature("all", sw.count(), windows=["1h"])', where=LONG)
    project.applies(view(COUNTS))
    project.applies(view(COUNTS, where=LONG))
    before = project.promotes("listening@2")
    after = project.applies(wide)
    assert after.views == ("listening", "listening@1")
    assert stored(after, "listening") == stored(before, "listening")
    assert after.resolve("listening@2:all_1h")


def test_a_window_longer_than_what_is_kept_is_a_version(project: Project) -> None:
    first = project.applies(view(COUNTS))
    longer = 'sw.Feature("plays", sw.count(), windows=["1h", "30d"])'
    second = project.applies(view(longer))
    assert second.view("listening") == first.view("listening")
    assert second.resolve("listening@2:plays_30d")
    new = [change for change in changes(second, first) if change.view == "listening@2"]
    assert all("it keeps 31d1h, was 1d1h5m" in change.reason for change in new), new


def test_a_feature_set_of_what_a_new_version_has_waits_for_it(project: Project) -> None:
    project.applies(view(COUNTS), feature_set("listening:plays_1h"))
    second = project.applies(view(SUMS, where=LONG), feature_set("listening:seconds_1h"))
    assert second.feature_set("model").features == ("listening:plays_1h",)
    assert second.feature_set("model@2").features == ("listening@2:seconds_1h",)
    third = project.promotes("listening@2")
    assert third.feature_set("model").features == ("listening:seconds_1h",)
    assert third.feature_set("model@1").features == ("listening@1:plays_1h",)
    assert project.applies(view(SUMS, where=LONG), feature_set("listening:seconds_1h")) == third
    assert project.promotes("listening@1") == second


def test_a_new_feature_set_of_a_new_version_begins_with_it(project: Project) -> None:
    project.applies(view(COUNTS))
    second = project.applies(view(SUMS, where=LONG), feature_set("listening:seconds_1h"))
    with pytest.raises(UnknownName):
        second.feature_set("model")
    assert second.feature_set("model@1").features == ("listening@2:seconds_1h",)
    third = project.promotes("listening@2")
    assert third.feature_set("model").features == ("listening:seconds_1h",)
    assert project.promotes("listening@1") == second, "it waits again"


def test_a_feature_set_that_is_changed_back_waits_for_nothing(project: Project) -> None:
    plays, seconds = feature_set("listening:plays_1h"), feature_set("listening:seconds_1h")
    project.applies(view(COUNTS), plays)
    project.applies(view(COUNTS, SUMS, where=LONG), seconds)
    stands = project.applies(view(COUNTS, SUMS, where=LONG), plays)
    assert [one.name for one in stands.feature_sets] == ["model"]
    after = project.promotes("listening@2")
    assert after.feature_set("model").features == ("listening:plays_1h",)


def test_a_set_that_was_never_live_is_given_a_number_when_it_is(project: Project) -> None:
    project.applies(view(COUNTS))
    project.applies(view(SUMS, where=LONG), feature_set("listening:seconds_1h"))
    stands = project.applies(view(COUNTS), feature_set("listening:plays_1h"))
    (record,) = [one for one in stands.live if one.kind == "feature set"]
    assert (record.live, record.newest, record.waits) == (2, 2, 0)


def test_two_views_that_a_set_reads_are_promoted_together(project: Project) -> None:
    both = feature_set("listening:plays_1h", "other:plays_1h")
    project.applies(view(COUNTS), view(COUNTS, name="other"), both)
    project.applies(
        view(SUMS, where=LONG),
        view(SUMS, where=LONG, name="other"),
        feature_set("listening:seconds_1h", "other:seconds_1h"),
    )
    stands = project.stands
    assert stands is not None
    with pytest.raises(DefinitionError, match="promote it together with"):
        promoted(stands, "listening@2")
    after = project.promotes("listening@2", "other@2")
    assert after.feature_set("model").features == ("listening:seconds_1h", "other:seconds_1h")
    assert project.promotes("other@1", "listening@1") == stands
    with pytest.raises(DefinitionError, match="two versions of listening"):
        promoted(stands, "listening@2", "listening@1")


def test_what_no_view_answers_any_more_is_no_version_of_a_set(project: Project) -> None:
    plays, seconds = feature_set("listening:plays_1h"), feature_set("listening:seconds_1h")
    project.applies(view(COUNTS), view(COUNTS, name="other"), plays)
    project.applies(view(SUMS, where=LONG), view(COUNTS, name="other"), seconds)
    project.promotes("listening@2")
    after = project.applies(view(COUNTS, name="other"), feature_set("other:plays_1h"))
    assert [one.name for one in after.feature_sets] == ["model"]


def test_a_version_of_another_projects_view_is_refused(project: Project, tmp_path: Path) -> None:
    project.applies(view(COUNTS))
    project.applies(view(COUNTS, where=LONG))
    project.promotes("listening@2")
    (tmp_path / "other").mkdir()
    planned = replace(Project(tmp_path / "other").planned(view(SUMS)), project="another")
    with pytest.raises(DefinitionError, match="view 'listening' is deployed by project"):
        whole(planned, project.stands, probes=False)


def test_another_entity_is_no_version(project: Project) -> None:
    project.applies(view(COUNTS))
    with pytest.raises(DefinitionError, match="entity of view 'listening' is none, was user_id"):
        project.applies(view(COUNTS).replace('entity=["user_id"]', "entity=[]"))


def test_logic_that_changes_with_a_columns_type_is_refused_with_the_way(project: Project) -> None:
    floats = SOURCE.replace('"double"', '"float"')
    project.file.write_text(floats + view(SUMS))
    project.stands = plan(load_project(project.file))
    with pytest.raises(DefinitionError, match="change the schema first, in an apply of its own"):
        project.applies(view(SUMS, where=LONG))
    assert project.applies(view(SUMS)).views == ("listening",), "the type alone is in place"


def test_a_schema_is_not_changed_below_a_version(project: Project) -> None:
    floats = SOURCE.replace('"double"', '"float"')
    for definitions in (view(SUMS), view(SUMS, where=LONG)):
        project.file.write_text(floats + definitions)
        project.stands = whole(plan(load_project(project.file)), project.stands, probes=False)
    project.promotes("listening@2")
    with pytest.raises(DefinitionError, match="retire it first: slicewise retire listening@1"):
        project.applies(view(SUMS, where=LONG))


def test_a_column_is_added_below_versions(project: Project) -> None:
    """None of them reads it, so each stays what it was."""
    project.applies(view(SUMS))
    stands = project.applies(view(SUMS, where=LONG))
    assert set(stands.views) == {"listening", "listening@2"}
    more = SOURCE.replace('"double"', '"double", "skips": "int64"')
    assert more != SOURCE
    project.file.write_text(more + view(SUMS, where=LONG))
    after = whole(plan(load_project(project.file)), stands, probes=True)
    assert [u.storage_fingerprint for u in after.units] == [
        u.storage_fingerprint for u in stands.units
    ]
    assert dict(after.source("plays").columns)["skips"] == "long"


def test_a_version_that_lacks_what_is_read_is_not_promoted(project: Project) -> None:
    project.applies(view(COUNTS))
    project.applies(view(COUNTS, SUMS, where=LONG), BEST)
    project.promotes("listening@2")
    reads = feature_set("listening:seconds_1h")
    stands = project.applies(view(COUNTS, SUMS, where=LONG), BEST, reads)
    with pytest.raises(DefinitionError, match=r"listening@1 has no seconds_1h.*set 'model' reads"):
        promoted(stands, "listening@1")
    means = 'sw.Feature("plays", sw.mean("seconds"), windows=["1h"])'
    project.applies(view(means, SUMS), reads)
    project.applies(view(COUNTS, SUMS, where=LONG), feature_set("listening:plays_1h"))
    assert project.stands is not None
    with pytest.raises(DefinitionError, match="plays_1h of listening@3 is double"):
        promoted(project.stands, "listening@3")


def test_a_leaderboard_of_what_a_new_version_has_is_refused_until_it_is_live(
    project: Project,
) -> None:
    project.applies(view(SUMS))
    with pytest.raises(
        DefinitionError, match="ranks listening:plays_1h, which only listening@2 has"
    ):
        project.applies(view(SUMS, COUNTS), BEST)
    project.applies(view(SUMS, COUNTS))
    project.promotes("listening@2")
    assert project.applies(view(SUMS, COUNTS), BEST).leaderboards


def test_versions_are_retired_unless_they_are_live_or_read(project: Project) -> None:
    project.applies(view(COUNTS), feature_set("listening:plays_1h"))
    project.applies(view(SUMS, where=LONG), feature_set("listening:seconds_1h"))
    after = project.promotes("listening@2")
    for names, what in (
        (["listening@2"], "listening@2 is live"),
        (["listening"], "listening is live"),
        (["listening@1"], "feature set 'model@1' reads listening@1"),
    ):
        with pytest.raises(DefinitionError, match=what):
            retired(after, names)
    with pytest.raises(UnknownName):
        retired(after, ["listening@7"])
    left = retired(after, ["listening@1", "model@1"])
    assert left.views == ("listening",)
    assert left.view("listening@2") == after.view("listening")
    assert [one.name for one in left.feature_sets] == ["model"]
    project.stands = left
    again = project.applies(view(COUNTS), feature_set("listening:plays_1h"))
    assert again.views == ("listening", "listening@3"), "a number is given once"


def test_what_is_no_version_is_not_promoted(project: Project) -> None:
    stands = project.applies(view(COUNTS))
    for name in ("listening", "listening@2", "hearing@1", "listening@x"):
        with pytest.raises(UnknownName):
            promoted(stands, name)
    assert promoted(stands, "listening@1") == stands


def test_the_words_of_a_view_say_which_version_it_is(project: Project) -> None:
    project.applies(view(COUNTS))
    stands = project.applies(view(COUNTS, where=LONG))
    facts = {one.name: one.facts for one in descriptions(stands)}
    assert facts["listening"]["version"] == "1, live; beside it listening@2"
    assert facts["listening@2"]["version"] == "2; listening stands for version 1"


def test_words_and_expectations_go_with_the_version(project: Project) -> None:
    words = 'description="all of them", '
    project.applies(view(COUNTS, more=words))
    second = project.applies(view(COUNTS, where=LONG, more='description="long ones", '))
    for name, text in (("listening", "all of them"), ("listening@2", "long ones")):
        described = second.description("view", name)
        assert described is not None
        assert described.description == text
    third = project.promotes("listening@2")
    described = third.description("view", "listening")
    assert described is not None
    assert described.description == "long ones"


def test_a_version_that_is_not_live_publishes_nothing(project: Project) -> None:
    emits = 'emit=sw.Emit("plays_out"), '
    first = project.applies(view(COUNTS, more=emits))
    second = project.applies(view(COUNTS, where=LONG, more=emits))
    assert emitted_views(second, "plays") == emitted_views(first, "plays")
    assert published(second) == published(first)
    (after,) = emitted_views(project.promotes("listening@2"), "plays")
    assert project.stands is not None
    assert (after.view, after.units) == ("listening", project.stands.view("listening"))


VIEWS = (
    view(COUNTS),
    view(COUNTS, where=LONG),
    view(SUMS, where=LONG),
    view(COUNTS, SUMS),
    view(COUNTS, EXACT, where=LONG),
    view(COUNTS, more='owner="ann", '),
)
OTHERS = (
    "",
    view(COUNTS, EXACT, name="other"),
    view(COUNTS, name="other", where=LONG),
    view(SUMS, EXACT, name="other"),
)
SETS = (
    "",
    feature_set("listening:plays_1h"),
    feature_set("listening:seconds_1h"),
    feature_set("listening:plays_1h", "other:plays_1h"),
)


@pytest.mark.parametrize("seed", seeds(range(160), quick=16))
def test_whatever_is_applied_promoted_and_retired_stands_whole(project: Project, seed: int) -> None:
    random = Random(seed)
    print(f"seed {seed}")
    for _ in range(9):
        stands, draw = project.stands, random.random()
        try:
            if stands is None or draw < 0.55:
                some = [random.choice(of) for of in (VIEWS, OTHERS, SETS, ("", "", BEST))]
                after = project.applies(*filter(None, some))
                assert project.applies(*filter(None, some)) == after, "nothing is to be done"
            elif draw < 0.85:
                promotes_some(project, stands, random)
            else:
                sets = [one.name for one in stands.feature_sets]
                names = [name for name in (*stands.views, *sets) if "@" in name]
                some = random.sample(names, random.randint(0, len(names)))
                project.stands = retired(stands, some)
        except DefinitionError:
            assert project.stands == stands
        whole_is(project.stands)


def promotes_some(project: Project, stands: Deployment, random: Random) -> None:
    """Promotes versions of one view, or of two; going back gives what stood."""
    names = {name.partition("@")[0]: name for name in stands.views if "@" in name}
    chosen = random.sample(sorted(names), random.randint(0, len(names)))
    back = [f"{name}@{stands.live_version('view', name).live}" for name in chosen]
    moved = project.promotes(*(names[name] for name in chosen))
    assert live_units(moved) == {
        **live_units(stands),
        **{name: stored(stands, names[name]) for name in chosen},
    }
    if len(moved.feature_sets) < len(stands.feature_sets):
        return  # a set that waited for another version was given up
    again = promoted(moved, *back)
    if live_sets(again) == live_sets(stands):  # else one that began is answered there too
        assert again == stands


def live_sets(deployment: Deployment) -> set[str]:
    return {one.name for one in deployment.feature_sets if "@" not in one.name}


def live_units(deployment: Deployment) -> dict[str, set[str]]:
    return {name: stored(deployment, name) for name in deployment.views if "@" not in name}


def whole_is(deployment: Deployment | None) -> None:
    """Everything that a deployment names is there, once."""
    if deployment is None:
        return
    assert Deployment.from_json(deployment.to_json()) == deployment
    for one in deployment.feature_sets:
        for ref in one.features:
            deployment.resolve(ref)
    names = [one.name for one in deployment.feature_sets]
    assert len(names) == len(set(names))
    records = [(one.kind, one.name) for one in deployment.live]
    assert len(records) == len(set(records))
    views = {(unit.view, type(unit), unit.slice_us) for unit in deployment.units}
    assert len(views) == len(deployment.units)
    assert descriptions(deployment)
