"""Songs come with the example's flights, and with nothing that has names of its own for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewise.features.plan.changes.projects import whole
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.local.songs import LEADERBOARD, has_songs, songs_beside
from slicewise.settings import Settings

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
COUNTED = 'source=flights, entity=[], features=[sw.Feature("n", sw.count(), windows=["1h"])]'
MORE = {
    "a view": f'sw.FeatureView("songs", {COUNTED})',
    "a source": 'sw.KafkaSource("plays", schema={"t": "timestamp_us"}, timestamp="t", max_lateness="1h")',
}


def settings(**more: str) -> Settings:
    return Settings.load({f"SLICEWISE_{name.upper()}": value for name, value in more.items()})


def example(name: str) -> Deployment:
    return plan(load_project(EXAMPLES / name / "features.py"))


def test_songs_come_with_the_flights() -> None:
    beside = songs_beside(settings(), example("flights"))
    assert beside is not None
    assert [leaderboard.name for leaderboard in beside.leaderboards] == [LEADERBOARD]
    deployed = whole(beside, whole(example("flights"), None, probes=True), probes=True)
    assert set(deployed.views) == {*example("flights").views, "songs"}
    assert has_songs(settings(), deployed)


def test_a_project_of_ones_own_is_deployed_alone() -> None:
    assert songs_beside(settings(), example("orders")) is None
    assert not has_songs(settings(), example("orders"))


def test_rate_zero_leaves_the_songs_out() -> None:
    assert songs_beside(settings(plays_rate="0"), example("flights")) is None
    assert not has_songs(settings(plays_rate="0"), whole(example("songs"), None, probes=False))


@pytest.mark.parametrize("what", MORE)
def test_a_project_that_has_a_name_of_the_songs_keeps_it(what: str, tmp_path: Path) -> None:
    file = tmp_path / "features.py"
    text = (EXAMPLES / "flights" / "features.py").read_text(encoding="utf-8")
    file.write_text(f"{text}\nmine = {MORE[what]}\n", encoding="utf-8")
    if what == "a source":
        used = f'sw.FeatureView("mine", {COUNTED.replace("flights", "mine")})'
        file.write_text(f"{file.read_text(encoding='utf-8')}my_view = {used}\n", encoding="utf-8")
    assert songs_beside(settings(), plan(load_project(file))) is None
