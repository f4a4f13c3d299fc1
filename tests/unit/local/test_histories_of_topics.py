"""A source with a history has its topic for itself, and apply refuses another beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slicewise.errors import DefinitionError
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.features.project import load_project
from slicewise.local.deploy import refuse_shared_topics
from tests.unit.features.plan.listening import COUNTS, SOURCE

VIEW = (
    'listening = sw.FeatureView("listening", source=plays, entity=["user_id"], '
    f"features=[{COUNTS}])\n"
)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    file = tmp_path / "features.py"
    file.write_text(SOURCE + VIEW)
    return next(one for one in plan(load_project(file)).sources if one.name == "plays")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_topic_of_a_history_is_refused_to_another_source(source: Source, is_first: bool) -> None:
    past = replace(source, history_until_us=1_000_000)
    other = replace(source, name="others")
    with pytest.raises(DefinitionError) as refused:
        refuse_shared_topics([past, other] if is_first else [other, past])
    assert "'others'" in refused.value.what
    assert refused.value.where == "source 'plays'"


def test_sources_without_a_history_may_share_a_topic(source: Source) -> None:
    refuse_shared_topics([source, replace(source, name="others")])


def test_a_history_beside_another_topic_is_taken(source: Source) -> None:
    past = replace(source, history_until_us=1_000_000)
    refuse_shared_topics([past, replace(source, name="others", topic="others")])
