"""A leaderboard is refused where it could not be kept, and what it means is in its fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import DefinitionError, UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import leaderboard_changes
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan

PLAYS = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "song_id": "string", "played_at": "timestamp_us"},
    timestamp="played_at",
)
SONGS = sw.FeatureView(
    "songs",
    source=PLAYS,
    entity=["song_id"],
    features=[
        sw.Feature(
            "plays", sw.count(), windows=["10s", sw.tumbling("1m"), sw.tumbling("2m", open=True)]
        ),
        sw.Feature("late", sw.count(), windows=[sw.sliding("10s", offset="1d")]),
        sw.Feature("listener", sw.last("user_id"), windows=["10s"]),
    ],
)
EVERYWHERE = sw.FeatureView(
    "everywhere",
    source=PLAYS,
    entity=[],
    features=[sw.Feature("plays", sw.count(), windows=["10s"])],
)

USERS = sw.FeatureView(
    "users",
    source=PLAYS,
    entity=["user_id"],
    features=[sw.Feature("plays", sw.count(), windows=["10s"])],
)


def planned(**changes: Any) -> Deployment:
    leaderboard = sw.Leaderboard(
        **{"name": "top_songs", "view": SONGS, "by": "plays_10s", **changes}
    )
    return plan(Project.of("songs", [SONGS, EVERYWHERE, leaderboard]))


def test_a_leaderboard_is_planned_with_its_defaults() -> None:
    leaderboard = planned().leaderboard("top_songs")
    assert (leaderboard.ref, leaderboard.k, leaderboard.every_us, leaderboard.topic) == (
        "songs:plays_10s",
        10,
        1_000_000,
        None,
    )
    assert planned(late="correct").leaderboard("top_songs").topic == "top_songs.corrections"
    assert planned(view="songs") == planned()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"by": "plays_9s"}, "unknown feature 'plays_9s'"),
        ({"view": "nothing"}, "unknown view 'nothing'"),
        ({"by": "listener_10s"}, "by='listener_10s' is string"),
        ({"by": "plays_tumbling_2m_open"}, "by='plays_tumbling_2m_open' is over tumbling_2m_open"),
        ({"by": "late_10s_offset_1d"}, "by='late_10s_offset_1d' is over 10s_offset_1d"),
        (
            {"by": "plays_tumbling_1m"},
            "every='1s', and the window of 'plays_tumbling_1m' ends every 1m",
        ),
        ({"every": "500ms"}, "every='500ms', and the window of 'plays_10s' ends every 1s"),
        ({"view": "everywhere"}, "view 'everywhere' has no entity: there is nothing to rank"),
    ],
)
def test_what_cannot_be_ranked_is_refused_with_its_place(
    changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        planned(**changes)
    assert refused.value.what == what
    assert "test_leaderboard.py" in str(refused.value.where)
    assert refused.value.expected


@pytest.mark.parametrize(
    "changes",
    [
        {"k": 0}, {"k": 1_001}, {"k": True}, {"late": "never"}, {"every": "2d"}, {"every": "soon"}, {"name": "a b"},
        {"topic": "t"}, {"topic": "a/b", "late": "correct"}, {"view": None}, {"by": 3}, {"correct_within": "2d"},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_where_they_are_written(changes: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        sw.Leaderboard(**{"name": "top_songs", "view": SONGS, "by": "plays_10s", **changes})


def test_one_name_is_one_leaderboard() -> None:
    leaderboards = [sw.Leaderboard("top", view=SONGS, by="plays_10s", k=k) for k in (1, 2)]
    with pytest.raises(DefinitionError, match="leaderboard 'top' is defined twice"):
        plan(Project.of("songs", [SONGS, *leaderboards]))


def test_a_deployment_with_leaderboards_goes_through_its_json() -> None:
    deployment = planned(late="correct", owner="music")
    assert Deployment.from_json(deployment.to_json()) == deployment
    with pytest.raises(UnknownName, match="unknown leaderboard 'top_song'"):
        deployment.leaderboard("top_song")


def test_a_deployment_without_leaderboards_keeps_the_digest_that_it_had() -> None:
    assert "leaderboards" not in json.loads(plan(Project.of("songs", [SONGS])).to_json())


def test_a_manifest_that_would_rank_other_values_is_refused() -> None:
    raw = json.loads(planned().to_json())
    raw["leaderboards"][0]["k"] = 11
    with pytest.raises(DefinitionError, match="the fingerprint of leaderboard 'top_songs'"):
        Deployment.from_json(json.dumps(raw))


def test_the_fingerprint_is_of_what_the_rows_mean() -> None:
    def fingerprint(**changes: Any) -> str:
        return planned(**changes).leaderboard(str(changes.get("name", "top_songs"))).fingerprint

    assert fingerprint() == fingerprint(late="correct", owner="music", name="other")
    changed = [
        fingerprint(k=9),
        fingerprint(every="2s"),
        fingerprint(by="plays_tumbling_1m", every="1m"),
    ]
    assert len({fingerprint(), *changed}) == 4


def test_what_a_change_of_a_leaderboard_does_is_said_before() -> None:
    def kinds(new: Deployment, old: Deployment | None) -> list[tuple[str, str]]:
        return [(change.view, change.kind) for change in leaderboard_changes(new, old)]

    bare = plan(Project.of("songs", [SONGS, EVERYWHERE]))
    assert kinds(planned(), None) == kinds(planned(), bare) == [("top_songs", "new")]
    assert kinds(planned(), planned()) == [("top_songs", "unchanged")]
    assert kinds(bare, planned()) == [("top_songs", "removed")]
    (changed,) = leaderboard_changes(planned(k=9), planned())
    assert (changed.kind, changed.reason) == (
        "definition", "the 9 with the highest songs:plays_10s: its rows begin anew",
    )  # fmt: skip
    (renamed,) = leaderboard_changes(planned(owner="music"), planned())
    assert renamed.reason == "the 10 with the highest songs:plays_10s"


def test_the_shipped_songs_project_is_checked_with_its_leaderboard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = Path(__file__).parents[4] / "examples" / "songs"
    assert main(["check", str(project)]) == 0
    output = capsys.readouterr().out
    assert "leaderboard top_songs: the 10 with the highest songs:plays_10s" in output
    assert "1 views, 0 feature sets, 1 leaderboards, 1 tests passed" in output
    assert main(["plan", str(project), "--offline"]) == 0
    assert "leaderboard top_songs: new; the 10 with the highest" in capsys.readouterr().out


def test_leaderboards_of_several_projects_stand_side_by_side() -> None:
    own = planned()
    other = plan(
        Project.of("others", [USERS, sw.Leaderboard("top_users", view=USERS, by="plays_10s")])
    )
    both = joined(own, other)
    assert [leaderboard.name for leaderboard in both.leaderboards] == ["top_users", "top_songs"]
    assert Deployment.from_json(both.to_json()) == both
    with pytest.raises(
        DefinitionError, match="leaderboard 'top_songs' is deployed by project 'songs'"
    ):
        joined(
            plan(
                Project.of(
                    "others", [USERS, sw.Leaderboard("top_songs", view=USERS, by="plays_10s")]
                )
            ),
            own,
        )
