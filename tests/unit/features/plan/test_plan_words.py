"""A plan says in words what a change of a view changes of what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.cli.by_view import view_changes
from slicewise.errors import DefinitionError
from slicewise.features.plan.changes.differences import differences
from slicewise.features.plan.changes.explain import Change, changes, refuse_changed_units
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan_source
from slicewise.features.plan.unit import Source
from tests.unit.features.plan.test_plan import (
    BASE,
    OTHER_STORAGE,
    SCHEMA,
    minutes,
    planned,
    plays,
    source,
    view,
)

IN_WORDS: dict[str, tuple[Callable[[], Deployment], Callable[[], Deployment], str]] = {
    "a slice": (
        lambda: planned(view(minutes(), **BASE, slice="1m")),
        lambda: planned(view(minutes(), **BASE, slice="5m")),
        "the slice of `listening` goes from 1m to 5m",
    ),
    "row logic": (
        lambda: planned(view(minutes(), **BASE, where="liked")),
        lambda: planned(view(minutes(), **BASE, where="stars > 1")),
        "where is `stars > 1`, was `liked`",
    ),
    "a computed column": (
        lambda: planned(view(minutes(), columns={"minutes": "seconds / 60"})),
        lambda: planned(view(minutes(), columns={"minutes": "seconds / 61"})),
        "column `minutes` computes `seconds / 61`, was `seconds / 60`",
    ),
    "a column over a column": (
        lambda: planned(view(minutes(), columns={"m": "seconds / 60", "minutes": "m * 2"})),
        lambda: planned(view(minutes(), columns={"m": "seconds / 61", "minutes": "m * 2"})),
        "column `minutes` computes `m * 2` of a column that changed",
    ),
    "an aggregate": (
        lambda: planned(view(sw.Feature("f", sw.sum("seconds"), windows=["1h"]))),
        lambda: planned(view(sw.Feature("f", sw.max("seconds"), windows=["1h"]))),
        "the aggregate of f_1h is max(column='seconds'), was sum(column='seconds')",
    ),
    "a condition of an aggregate": (
        lambda: planned(view(sw.Feature("f", sw.count(where="stars > 1"), windows=["1h"]))),
        lambda: planned(view(sw.Feature("f", sw.count(where="stars > 2"), windows=["1h"]))),
        "the aggregate of f_1h is count(where='stars > 2'), was count(where='stars > 1')",
    ),
    "a feature more": (
        lambda: planned(view(plays("1h"))),
        lambda: planned(view(plays("1h"), sw.Feature("s", sw.sum("seconds"), windows=["1h"]))),
        "partial added: sum(column='seconds'), for s_1h",
    ),
    "a feature less": (
        lambda: planned(view(plays("1h"), sw.Feature("s", sw.sum("seconds"), windows=["1h"]))),
        lambda: planned(view(plays("1h"))),
        "partial removed: sum(column='seconds'), for s_1h",
    ),
    "an entity": (
        lambda: planned(view(plays("1h"), entity=["user_id"])),
        lambda: planned(view(plays("1h"), entity=["song_id"])),
        "the entity is song_id (string), was user_id (string)",
    ),
    "spread": (
        lambda: planned(view(plays("1h"))),
        lambda: planned(view(plays("1h"), spread=True)),
        "spread is True, was False",
    ),
    "a lifetime": (
        lambda: planned(view(plays("1h"), slice="1m")),
        lambda: planned(view(plays("1h", "lifetime"), slice="1m")),
        "a lifetime is added, and all events are kept",
    ),
    "a source": (
        lambda: planned(view(plays("1h"))),
        lambda: planned(view(plays("1h"), source=source(name="others"))),
        "the source is others, was plays",
    ),
    "which events count": (
        lambda: planned(view(plays("1h"))),
        lambda: planned(
            view(plays("1h"), source=replace(source(), dedupe=sw.dedupe("song_id", within="2h")))
        ),
        (
            "events count once by song_id, within 2h and 1000 events; until now they count "
            "whenever they come"
        ),
    ),
}


@pytest.mark.parametrize("name", IN_WORDS)
def test_a_refused_change_is_told_in_words(name: str) -> None:
    before, after, words = IN_WORDS[name]
    results = [change for change in changes(after(), before()) if change.kind == "refused"]
    assert [change.reason for change in results if words in change.reason], changes(
        after(), before()
    )
    with pytest.raises(DefinitionError) as caught:
        refuse_changed_units(after(), before())
    assert words in caught.value.what
    assert not re.search(r'[{}"]|_us|->|_where_', caught.value.what), "no data of the fingerprint"


@pytest.mark.parametrize("name", sorted(OTHER_STORAGE.keys() - {"view"}))
def test_whatever_the_storage_fingerprint_covers_is_told_in_words(name: str) -> None:
    (base,), (now,) = planned(view(minutes(), **BASE)).units, (OTHER_STORAGE[name](),)
    reasons = differences(now, source_of(name), base, plan_source(source()))
    assert reasons
    assert "it stores other bytes" not in reasons


def test_equal_units_differ_in_nothing() -> None:
    deployment = planned(view(minutes(), **BASE))
    (unit,) = deployment.units
    assert differences(unit, deployment.sources[0], unit, deployment.sources[0]) == ()
    renamed = replace(unit, owner="somebody")
    assert differences(renamed, deployment.sources[0], unit, deployment.sources[0]) == ()


def source_of(name: str) -> Source:
    changed = {
        "the type of a column that is read": source(schema={**SCHEMA, "seconds": "long"}),
        "event-time form": source(schema={**SCHEMA, "played_at": "timestamp_ms"}),
        "source": source(name="others"),
    }
    return plan_source(changed.get(name, source()))


def test_two_units_of_a_view_are_one_row_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slicewise.toml").write_text('definitions = "features.py"\n')
    (tmp_path / "features.py").write_text(TWO_UNITS)
    monkeypatch.setenv("SLICEWISE_PROJECT", str(tmp_path))
    assert main(["plan", "--offline"]) == 0
    table, _, rest = capsys.readouterr().out.partition("\n\n")
    _, *rows = table.splitlines()
    assert [row.split()[0] for row in rows] == ["listening", "other"]
    assert "1m + events" in rows[0]
    assert len(re.findall(r"^listening: new; ", rest, re.MULTILINE)) == 1
    assert main(["plan", "--offline", "--json"]) == 0
    plan_json = json.loads(capsys.readouterr().out)
    assert [unit["view"] for unit in plan_json["units"]] == ["listening", "listening", "other"]
    assert [change["view"] for change in plan_json["changes"]] == [
        "listening",
        "listening",
        "other",
    ]
    listed = {row["slice"]: row for row in plan_json["units"]}
    cells = re.split(r"  +", rows[0])
    assert cells[5:7] == ["2", "1"], (
        "features and partials are those of both; a list of events has no partial"
    )
    assert cells[-2] == str(sum(row["reads_per_request"] for row in plan_json["units"][:2]))
    assert set(listed) == {"1m", "events"}


def test_the_gravest_change_stands_for_a_view_and_every_reason_is_told_once() -> None:
    given = [
        Change("a", "unchanged", "nothing to do", "1"),
        Change("b", "definition", "x", "2"),
        Change("a", "refused", "why", "3"),
        Change("b", "definition", "x", "4"),
        Change("c", "unchanged", "nothing to do", "5"),
        Change("c", "unchanged", "nothing to do", "6"),
    ]
    changes_given = [
        (view_change.view, view_change.kind, view_change.reason)
        for view_change in view_changes(given)
    ]
    assert changes_given == [
        ("a", "refused", "why"),
        ("b", "definition", "x"),
        ("c", "unchanged", "nothing to do"),
    ]


def test_every_refused_view_is_told() -> None:
    now = planned(view(plays("1h")), view(plays("1h"), name="other"))
    changed = planned(
        view(plays("1h"), where="liked"), view(plays("1h"), name="other", where="stars > 1")
    )
    with pytest.raises(DefinitionError) as caught:
        refuse_changed_units(changed, now)
    assert "'listening' is deployed with other partials: where is `liked`" in caught.value.what
    assert "'other' is deployed with other partials: where is `stars > 1`" in caught.value.what


TWO_UNITS = """
import slicewise as sw

plays = sw.KafkaSource("plays", schema={"user_id": "string", "ts": "timestamp_us"}, timestamp="ts")
plain = sw.Feature("plays", sw.count(), windows=["10m"])
latest = sw.Feature("newest", sw.count(), windows=[sw.rows(3)])
listening = sw.FeatureView("listening", source=plays, entity=["user_id"], features=[plain, latest])
other = sw.FeatureView("other", source=plays, entity=["user_id"], features=[plain])
"""
