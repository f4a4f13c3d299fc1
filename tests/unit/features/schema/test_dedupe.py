"""A source's rule of event ids is checked as it is written, and changes stored bytes of its views
alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.costs import entity_bytes
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.schema.dedupe import EventIds
from slicewise.features.sql.python_form import python_form
from slicewise.lifecycle.realtime import no_realtime
from slicewise.windows.durations import HOUR_US

SCHEMA = {
    "user": "string",
    "event_id": "string",
    "number": "int64",
    "seconds": "double",
    "t": "timestamp_us",
}


def source(**given: Any) -> sw.KafkaSource:
    return sw.KafkaSource("plays", schema=SCHEMA, timestamp="t", **given)


def view(of: sw.KafkaSource, *windows: Any, **given: Any) -> sw.FeatureView:
    feature = sw.Feature("n", sw.count(), windows=windows or ("1h",))
    return sw.FeatureView("v", source=of, entity=["user"], features=[feature], **given)


def deployed(of: sw.KafkaSource, **given: Any) -> Deployment:
    return plan(Project.of("p", [view(of, **given)]))


def test_a_column_is_enough() -> None:
    result = deployed(source(dedupe=sw.dedupe("event_id")))
    rule = EventIds("event_id", HOUR_US, 1_000)
    assert result.source("plays").dedupe == rule
    assert result.units[0].dedupe == rule
    assert result.units[0].reads == ("event_id", "t", "user")
    assert Deployment.from_json(result.to_json()) == result


def test_a_plan_says_what_remembering_costs() -> None:
    (one,), (none,) = (
        deployed(source(dedupe=sw.dedupe("event_id", most=50))).units,
        deployed(source()).units,
    )
    whole, without = entity_bytes(one, None), entity_bytes(none, None)
    assert 50 * 16 < whole - without < 50 * 16 + 100
    assert 3 * 16 < entity_bytes(one, 3) - entity_bytes(none, 3) < 3 * 16 + 100


def test_a_source_without_keeps_its_deployment() -> None:
    result = deployed(source())
    assert "dedupe" not in result.to_json()
    assert result.units[0].dedupe is None


@pytest.mark.parametrize(
    "other",
    [None, sw.dedupe("number"), sw.dedupe("event_id", within="2h"), sw.dedupe("event_id", most=7)],
    ids=["none", "column", "within", "most"],
)
def test_another_rule_is_another_unit(other: Any) -> None:
    one, another = deployed(source(dedupe=sw.dedupe("event_id"))), deployed(source(dedupe=other))
    assert one.units[0].storage_fingerprint != another.units[0].storage_fingerprint
    assert one.source("plays").schema_fingerprint == another.source("plays").schema_fingerprint, (
        "no record is judged by it"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (sw.dedupe("nothing"), "'nothing', which is no column"),
        (sw.dedupe("seconds"), "which is double"),
        (sw.dedupe("t"), "which is timestamp_us"),
        (sw.dedupe("event_id", within="0s"), "0s"),
        (sw.dedupe("event_id", within="10ms"), "within '10ms'"),
        (sw.dedupe("event_id", within="8d"), "within '8d'"),
        (sw.dedupe("event_id", within="soon"), "soon"),
        (sw.dedupe("event_id", most=0), "remembers 0"),
        (sw.dedupe("event_id", most=10_001), "remembers 10001"),
        (sw.dedupe("event_id", most=True), "remembers True"),
        ("event_id", "dedupe is 'event_id'"),
    ],
)
def test_what_cannot_tell_events_is_refused(given: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        source(dedupe=given)
    assert message in str(refused.value)
    assert "source 'plays'" in str(refused.value)


@pytest.mark.parametrize("window", [sw.exact_range("3h"), sw.rows(5)])
def test_exact_windows_are_refused(window: Any) -> None:
    with pytest.raises(DefinitionError, match="exact window of n_"):
        plan(Project.of("p", [view(source(dedupe=sw.dedupe("event_id")), "1h", window)]))


def test_an_emission_is_refused() -> None:
    with pytest.raises(DefinitionError, match="emit="):
        deployed(source(dedupe=sw.dedupe("event_id")), emit="windows")


def test_a_leaderboard_is_refused() -> None:
    declared = view(source(dedupe=sw.dedupe("event_id")), sw.tumbling("1h"))
    leaderboard = sw.Leaderboard("best", view=declared, by="n_tumbling_1h", k=3, every="1h")
    with pytest.raises(DefinitionError, match="count once by their id"):
        plan(Project.of("p", [declared, leaderboard]))
    ranked = view(source(), sw.tumbling("1h"))
    assert plan(
        Project.of(
            "p", [ranked, sw.Leaderboard("best", view=ranked, by="n_tumbling_1h", k=3, every="1h")]
        )
    )


def test_its_views_stay_on_the_micro_batch_lane_and_say_why() -> None:
    reason = no_realtime(deployed(source(dedupe=sw.dedupe("event_id"))).units[0])
    assert reason is not None
    assert reason.startswith("event_id: ")
    assert no_realtime(deployed(source()).units[0]) is None


def test_sql_says_it_too() -> None:
    text = """
        CREATE SOURCE plays (user STRING, event_id STRING, number BIGINT, seconds DOUBLE, t TIMESTAMP_US)
        WITH (timestamp = 't', dedupe = 'event_id', dedupe_within = '2h', dedupe_most = '50');
        CREATE FEATURE VIEW v AS SELECT user, count(*)
        OVER (PARTITION BY user ORDER BY SLICE(t) RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS n_1h
        FROM plays
    """
    (sql_view,) = sw.sql_views(text)
    in_python = source(dedupe=sw.dedupe("event_id", within="2h", most=50))
    ours, theirs = plan(Project.of("p", [sql_view])), deployed(in_python)
    assert ours.units[0].storage_fingerprint == theirs.units[0].storage_fingerprint
    assert 'dedupe=sw.dedupe("event_id", within="2h", most=50),' in python_form(sql_view)
    assert 'dedupe=sw.dedupe("event_id"),' in python_form(
        view(source(dedupe=sw.dedupe("event_id")))
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("dedupe = 'nothing'", "no column"),
        ("dedupe = 'event_id', dedupe_most = 'many'", "'many' is no number"),
        ("dedupe_within = '1h'", "by which column"),
    ],
)
def test_sql_refuses_what_python_refuses(options: str, message: str) -> None:
    text = f"CREATE SOURCE s (event_id STRING, t TIMESTAMP_US) WITH (timestamp = 't', {options})"
    with pytest.raises(DefinitionError, match=message):
        sw.sql_views(text)


def test_the_printed_form_runs(tmp_path: Path) -> None:
    declared = view(source(dedupe=sw.dedupe("event_id", most=9)))
    file = tmp_path / "features.py"
    file.write_text(f"import slicewise as sw\n\n{python_form(declared)}")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    assert plan(Project.of("p", [space["v"]])).units == plan(Project.of("p", [declared])).units
