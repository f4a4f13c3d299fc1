"""A wrong definition is refused where it was written, with what was expected and what to do."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Unpack

import pytest

import slicewise as sw
from slicewise.aggregates import Aggregate
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from tests.support.fields import SourceFields, ViewFields

SCHEMA = {
    "user_id": "string",
    "song_id": "string",
    "seconds": "double",
    "price": "decimal(10,2)",
    "at_us": "timestamp_us",
}


def source(**changes: Unpack[SourceFields]) -> sw.KafkaSource:
    given: SourceFields = {"name": "plays", "schema": SCHEMA, "timestamp": "at_us", **changes}
    return sw.KafkaSource(**given)


def view(**changes: Unpack[ViewFields]) -> sw.FeatureView:
    given: ViewFields = {
        "name": "listening",
        "source": source(),
        "entity": ["user_id"],
        "features": [sw.Feature("plays", sw.count(), windows=["10m"])],
        **changes,
    }
    return sw.FeatureView(**given)


def feature(
    name: str = "f",
    aggregate: Aggregate | None = None,
    windows: Sequence[sw.Window | str] = ("1h",),
) -> sw.Feature:
    return sw.Feature(name, aggregate or sw.count(), windows=list(windows))


def planned(*definitions: sw.FeatureView | sw.FeatureSet) -> Deployment:
    return plan(Project.of("project", definitions))


# what makes the mistake; what, where and the hint of its refusal
WRONG: dict[str, tuple[Callable[[], object], str, str | None, str]] = {
    "unknown column of an aggregate": (
        lambda: planned(view(features=[feature("f", sw.sum("second"))])),
        "unknown column 'second'",
        "feature 'f' of view 'listening'",
        "did you mean seconds",
    ),
    "wrong type for the aggregate": (
        lambda: planned(view(features=[feature("f", sw.sum("song_id"))])),
        "cannot read column 'song_id'",
        "feature 'f' of view 'listening'",
        "",
    ),
    "window not divisible by the declared slice": (
        lambda: planned(view(slice="15m")),
        "window 10m is not divisible by the slice 15m",
        "view 'listening'",
        "change the window",
    ),
    "slice that does not divide the hour": (
        lambda: planned(view(slice="7m", features=[feature(windows=["7m"])])),
        "does not divide the hour",
        "view 'listening'",
        "",
    ),
    "window that no slice fits": (
        lambda: planned(view(features=[feature(windows=["1001ms"])])),
        "no slice fits",
        "view 'listening'",
        "declare slice=",
    ),
    "feature twice": (
        lambda: view(features=[feature("f"), feature("f", sw.sum("seconds"))]),
        "feature 'f' stands twice",
        "view 'listening'",
        "rename",
    ),
    "window twice": (
        lambda: feature(windows=["1h", "1h"]),
        "window '1h' stands twice",
        "feature 'f'",
        "rename",
    ),
    "two features with one column": (
        lambda: view(
            features=[
                feature("f", windows=[sw.tumbling("1h")]),
                feature("f_tumbling", windows=["1h"]),
            ]
        ),
        "feature column 'f_tumbling_1h' stands twice",
        "view 'listening'",
        "rename",
    ),
    "view twice": (
        lambda: planned(view(), view()),
        "view 'listening' is defined twice",
        "test_definitions.py",
        "rename",
    ),
    "feature set twice": (
        lambda: planned(view(), *(sw.FeatureSet("s", ["listening:plays_10m"]) for _ in range(2))),
        "feature set 's' is defined twice",
        "test_definitions.py",
        "rename",
    ),
    "two sources of one name": (
        lambda: planned(view(), view(name="other", source=source(max_lateness="2d"))),
        "two different sources are named 'plays'",
        "test_definitions.py",
        "share one object",
    ),
    "one topic under two sources": (
        lambda: planned(view(), view(name="other", source=source(name="plays2", topic="plays"))),
        "topic 'plays' is read by several sources: plays, plays2",
        None,
        "merge",
    ),
    "bad duration of a window": (
        lambda: feature(windows=["10 minutes"]),
        "'10 minutes' is no duration",
        "feature 'f'",
        "10",
    ),
    "bad duration of a source": (
        lambda: source(max_lateness="soon"),
        "'soon' is no duration",
        "max_lateness of source",
        "",
    ),
    "hop beyond the window": (
        lambda: sw.hopping("10m", every="1h"),
        "events would be in no window",
        None,
        "shorten",
    ),
    "no windows": (
        lambda: sw.Feature("f", sw.count(), windows=[]),
        "windows are []",
        "feature 'f'",
        "",
    ),
    "windows as one text": (
        lambda: sw.Feature("f", sw.count(), windows="1h"),
        "windows are '1h'",
        "feature 'f'",
        "",
    ),
    "a number as a column": (
        lambda: sw.sum(5),  # type: ignore[arg-type]  # the mistake
        "column is 5",
        "sum(…)",
        "name a column",
    ),
    "a list as a column": (
        lambda: sw.argmax("song_id", by=["seconds"]),  # type: ignore[arg-type]  # the mistake
        "by is ['seconds']",
        "argmax(…)",
        "name a column",
    ),
    "a share that is no list": (
        lambda: sw.quantiles("seconds", q=0.5),  # type: ignore[arg-type]  # the mistake
        "q is 0.5",
        None,
        "in [ ]",
    ),
    "a feature column with the name of the key": (
        lambda: view(
            source=source(schema={**SCHEMA, "user_1h": "string"}),
            entity=["user_1h"],
            features=[feature("user", windows=["1h"])],
        ),
        "'user_1h' has the name of the entity column",
        "view 'listening'",
        "rename",
    ),
    "features that differ in case": (
        lambda: view(features=[feature("f"), feature("F")]),
        "features 'f' and 'F' differ in case only",
        "view 'listening'",
        "rename",
    ),
    "features that differ in case, over other windows": (
        lambda: view(features=[feature("f", windows=["1h"]), feature("F", windows=["2h"])]),
        "features 'f' and 'F' differ in case only",
        "view 'listening'",
        "rename",
    ),
    "views that differ in case": (
        lambda: planned(view(), view(name="other"), view(name="Listening")),
        "views 'listening' and 'Listening' differ in case only",
        "test_definitions.py",
        "rename",
    ),
    "sources that differ in case": (
        lambda: planned(view(), view(name="other", source=source(name="Plays", topic="more"))),
        "sources 'plays' and 'Plays' differ in case only",
        "test_definitions.py",
        "rename",
    ),
    "feature sets that differ in case": (
        lambda: planned(view(), *(sw.FeatureSet(name, ["listening:plays_10m"]) for name in "sS")),
        "feature sets 's' and 'S' differ in case only",
        "test_definitions.py",
        "rename",
    ),
    "an entity that is how a row is read": (
        lambda: view(source=source(schema={**SCHEMA, "mode": "string"}), entity=["mode"]),
        "an entity column named 'mode'",
        "view 'listening'",
        "paths=",
    ),
    "a feature without a list": (
        lambda: view(features=feature()),  # type: ignore[arg-type]  # the mistake
        "features are no list",
        "view 'listening'",
        "",
    ),
    "windows as a set, whose order is another in every process": (
        lambda: sw.Feature("f", sw.count(), windows={"1h", "2h"}),  # type: ignore[arg-type]  # the mistake
        "windows are {",
        "feature 'f'",
        "",
    ),
    "no entity at all": (
        lambda: view(entity=None),  # type: ignore[arg-type]  # the mistake
        "entity is None",
        "view 'listening'",
        "",
    ),
    "computed columns as a list": (
        lambda: view(columns=["minutes"]),  # type: ignore[arg-type]  # the mistake
        "columns is ['minutes']",
        "view 'listening'",
        "",
    ),
    "a topic without a name": (
        lambda: source(topic=""),
        "'' is no topic name",
        "source 'plays'",
        "leave it out",
    ),
    "a default that a whole number cannot hold": (
        lambda: planned(
            view(), sw.FeatureSet("s", ["listening:plays_10m"], defaults={"plays_10m": 1.5})
        ),
        "the default 1.5",
        "feature set 's'",
        "",
    ),
    "a default that JSON cannot hold": (
        lambda: planned(
            view(features=[feature("f", sw.sum("seconds"))]),
            sw.FeatureSet("s", ["listening:f_1h"], defaults={"f_1h": float("nan")}),
        ),
        "the default nan of 'listening:f_1h' is no double",
        "feature set 's'",
        "",
    ),
    "another case of a column": (
        lambda: planned(view(features=[feature("f", sw.sum("Seconds"))])),
        "unknown column 'Seconds'",
        "feature 'f' of view 'listening'",
        "did you mean seconds?",
    ),
    "no aggregate": (
        lambda: sw.Feature("f", "count", windows=["1h"]),  # type: ignore[arg-type]  # the mistake
        "'count' is no aggregate",
        "feature 'f'",
        "",
    ),
    "an aggregate's function instead of its call": (
        lambda: sw.Feature("f", sw.count, windows=["1h"]),  # type: ignore[arg-type]  # the mistake
        "is no aggregate",
        "feature 'f'",
        "",
    ),
    "row logic outside the list": (
        lambda: planned(view(where="LOWER(song_id) = 'x'")),
        "LOWER is not on the list",
        "where of view 'listening'",
        "",
    ),
    "row logic with an unknown column": (
        lambda: planned(view(columns={"m": "sekonds / 60"})),
        "unknown column 'sekonds'",
        "column 'm' of view 'listening'",
        "did you mean seconds",
    ),
    "a computed column that shadows": (
        lambda: view(columns={"Seconds": "seconds / 60"}),
        "has the name of a column of the source",
        "view 'listening'",
        "rename",
    ),
    "unknown entity column": (
        lambda: planned(view(entity=["user"])),
        "entity names 'user'",
        "view 'listening'",
        "did you mean user_id",
    ),
    "an entity of doubles": (
        lambda: planned(view(entity=["seconds"])),
        "is double",
        "view 'listening'",
        "string or long",
    ),
    "an entity column twice": (
        lambda: view(entity=["user_id", "user_id"]),
        "stands twice",
        "view 'listening'",
        "",
    ),
    "an entity as text": (
        lambda: view(entity="user_id"),
        "entity is 'user_id'",
        "view 'listening'",
        "",
    ),
    "no feature": (lambda: view(features=[]), "no features", "view 'listening'", ""),
    "unknown type": (
        lambda: source(schema={**SCHEMA, "x": "float128"}),
        "'float128' is no column type",
        "column 'x'",
        "",
    ),
    "a decimal without measure": (
        lambda: source(schema={**SCHEMA, "x": "decimal(99,2)"}),
        "no column type",
        "column 'x'",
        "",
    ),
    "no timestamp": (
        lambda: source(timestamp="user_id"),
        "the timestamp 'user_id' is string",
        "source 'plays'",
        "schema",
    ),
    "a timestamp that is missing": (
        lambda: source(timestamp="nope"),
        "no column of the schema",
        "source 'plays'",
        "",
    ),
    "columns that differ in case": (
        lambda: source(schema={**SCHEMA, "USER_ID": "string"}),
        "differ in case only",
        "source 'plays'",
        "rename one",
    ),
    "instants in two forms": (
        lambda: source(schema={**SCHEMA, "b": "timestamp_s"}),
        "different forms: s, us",
        "source 'plays'",
        "declare",
    ),
    "a reserved column": (
        lambda: source(schema={**SCHEMA, "Offset": "long"}),
        "adds itself",
        "source 'plays'",
        "rename",
    ),
    "a column that is no name": (
        lambda: source(schema={**SCHEMA, "a b": "long"}),
        "'a b' is no name",
        "source",
        "rename",
    ),
    "required names nothing": (
        lambda: source(required=["x"]),
        "required names 'x'",
        "source 'plays'",
        "",
    ),
    "allow_nan of text": (
        lambda: source(allow_nan=["song_id"]),
        "allow_nan names 'song_id'",
        "source 'plays'",
        "",
    ),
    "NaN into an aggregate": (
        lambda: planned(
            view(source=source(allow_nan=["seconds"]), features=[feature("f", sw.sum("seconds"))])
        ),
        "which allows NaN",
        "feature 'f'",
        "CASE WHEN",
    ),
    "history": (
        lambda: source(history="s3://x", history_until="2026-11-01T00:00:00Z"),
        "history is 's3://x'",
        "source 'plays'",
        "parquet:",
    ),
    "a history without an end": (
        lambda: source(history="parquet:x"),
        "history_until None",
        "source 'plays'",
        "history_until=",
    ),
    "a history that ends nowhere": (
        lambda: source(history="parquet:x", history_until="2026-11-01"),
        "is no instant",
        "history_until of source 'plays'",
        "Z is UTC",
    ),
    "a name that is none": (lambda: view(name="my-view"), "'my-view' is no name", "view", "rename"),
    "a set of unknown view": (
        lambda: planned(view(), sw.FeatureSet("s", ["listing:plays_10m"])),
        "unknown view 'listing'",
        "feature set 's'",
        "did you mean listening",
    ),
    "a set of unknown feature": (
        lambda: planned(view(), sw.FeatureSet("s", ["listening:plays_1h"])),
        "unknown feature 'plays_1h'",
        "feature set 's'",
        "did you mean plays_10m",
    ),
    "a set without a view's name": (
        lambda: sw.FeatureSet("s", ["plays_10m"]),
        "'plays_10m' is no feature",
        "'s'",
        "",
    ),
    "an empty set": (lambda: sw.FeatureSet("s", []), "empty", "feature set 's'", ""),
    "a default of another type": (
        lambda: planned(
            view(), sw.FeatureSet("s", ["listening:plays_10m"], defaults={"plays_10m": "none"})
        ),
        "the default 'none' of 'listening:plays_10m' is no int64",
        "feature set 's'",
        "",
    ),
    "a default of nothing": (
        lambda: planned(
            view(), sw.FeatureSet("s", ["listening:plays_10m"], defaults={"listening:plays": 0})
        ),
        "the default 'listening:plays' names no feature",
        "feature set 's'",
        "did you mean listening:plays_10m",
    ),
    "an empty project": (lambda: planned(), "declares no view", None, "init"),
    "a case that expects nothing": (
        lambda: sw.case(events=[], at=0, expect={}),
        "expects nothing",
        "test_definitions",
        "",
    ),
    "a case of unknown mode": (
        lambda: sw.case(events=[], at=0, expect={"x": 1}, mode="now"),
        "'now' is no mode",
        "test_definitions",
        "",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name: str) -> None:
    make, what, where, hint = WRONG[name]
    with pytest.raises(DefinitionError) as refused:
        make()
    error = refused.value
    assert what in error.what
    assert where is None or where in str(error.where)
    assert hint in f"{error.expected} {error.next_step}"
    assert error.expected or error.next_step, "an error says what to do"


def test_a_refusal_names_file_and_line() -> None:
    with pytest.raises(DefinitionError, match=r"test_definitions\.py:") as refused:
        planned(view(features=[feature("f", sw.sum("nope"))]))
    where = str(refused.value.where)
    line = int(where.rpartition(":")[2].rstrip(")"))
    assert line == view.__code__.co_firstlineno + 8, "the line of the FeatureView(…) call"


def test_definitions_cannot_be_changed_afterwards() -> None:
    made = view(columns={"m": "seconds / 60"})
    with pytest.raises(TypeError):
        made.columns["x"] = "1"  # type: ignore[index]  # the mistake
    with pytest.raises(AttributeError):
        made.name = "other"  # type: ignore[misc]  # the mistake
    with pytest.raises(TypeError):
        made.source.schema["x"] = "long"  # type: ignore[index]  # the mistake


def test_importing_slicewise_loads_nothing_heavy() -> None:
    code = "import slicewise, sys; print(sorted(m for m in sys.modules if '.' not in m))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("pyarrow", "numpy", "sqlglot", "duckdb", "msgpack"):
        assert f"'{heavy}'" not in printed


def test_every_public_name_is_there() -> None:
    for name in dir(sw):
        assert getattr(sw, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = sw.nope
