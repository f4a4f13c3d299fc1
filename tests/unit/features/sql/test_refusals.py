"""Text that cannot be served as written is refused with its reason, line and column, and a
caret."""

from __future__ import annotations

import contextlib
import pickle
import random
from dataclasses import replace

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.naming import Location
from slicewise.features.plan.planner import plan
from slicewise.features.sql import SqlRefused, read_definitions
from tests.unit.features.sql.refusals import REFUSALS, SOURCE, W


def refused(text: str) -> SqlRefused:
    with pytest.raises(SqlRefused) as caught:
        read_definitions(text, "views.sql", Location("views.sql", 1), [])
    return caught.value


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_it_is_refused_at_its_place(name: str) -> None:
    message, marked = REFUSALS[name]
    whole = SOURCE + marked
    assert whole.count("›") == 1
    at = whole.index("›")
    text = whole.replace("›", "")
    error = refused(text)
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    assert message in str(error)
    assert (error.line, error.column) == (line, column)
    assert f"views.sql, line {line}, column {column}" in str(error)
    *_, shown, carets = str(error.where).splitlines()
    written, pointed = shown.partition(" | ")[2], carets.partition("| ")[2]
    start = len(pointed) - len(pointed.lstrip())
    assert set(pointed.strip()) == {"^"}
    assert (written + "\n")[start] == (text + "\n")[at]


@pytest.mark.parametrize(
    "lengths",
    [
        "INTERVAL '30' MINUTE",
        "INTERVAL '30' MINUTE, every => INTERVAL '1' HOUR",
        "INTERVAL '1' HOUR, gap => INTERVAL '1' HOUR",
    ],
)
def test_a_session_says_how_long_it_may_last(lengths: str) -> None:
    error = refused(
        SOURCE + f"SELECT count(*) AS n FROM plays GROUP BY user_id, SESSION(ts, {lengths})"
    )
    assert "SESSION is called otherwise" in error.what
    assert "then how long one may last" in str(error.expected)


def test_the_place_is_right_behind_other_statements_comments_tabs_and_other_scripts() -> None:
    head = SOURCE + "-- Größe; 'none\n/* » ; \n */\n"
    text = head + (
        f"SELECT user_id,\n\tcount(*) {W} AS n_1h, 'ä' || song AS größe,\n\tsumm(n) {W} AS "
        "x_1h\nFROM plays;\n"
    )
    error = refused(text)
    line = text[: text.index("summ")].count("\n") + 1
    assert (error.line, error.column) == (line, 2)
    assert str(error.where).endswith(f"\n    {' ' * len(str(line))} | \t^^^^")


def test_a_long_line_is_cut_around_the_place() -> None:
    text = (
        SOURCE
        + "SELECT user_id, "
        + ", ".join(f"sum(n) {W} AS n{i}_1h" for i in range(20))
        + ", summ(n) FROM plays"
    )
    shown, carets = str(refused(text).where).splitlines()[-2:]
    assert len(shown) < 130
    assert shown[carets.index("^") :].startswith("summ")


def test_what_is_found_when_the_project_is_planned_has_the_views_place_in_the_text() -> None:
    text = SOURCE + f"\nCREATE FEATURE VIEW v AS SELECT user_id, count(*) {W} AS n_1h FROM plays"
    (view,) = read_definitions(
        text, "views.sql", Location("views.sql", 1), [], own_lines=True
    ).views
    inline = sw.sql(text)
    for given, position in (
        (view, "(views.sql:5:21)"),
        (inline, ", in its SQL, line 5, column 21)"),
    ):
        with pytest.raises(DefinitionError) as caught:
            plan(Project.of("p", [given, replace(given, name="V")]))
        assert "'v' and 'V' differ in case only" in caught.value.what
        assert position in str(caught.value.where)


def test_an_error_crosses_processes() -> None:
    error = refused("DROP TABLE plays")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.column) == (str(error), 1, 1)


def test_sql_in_python_names_the_python_line_too() -> None:
    with pytest.raises(DefinitionError) as caught:
        sw.sql("CREATE FEATURE VIEW v AS SELECT 1 FROM nowhere")
    assert "test_refusals.py:" in str(caught.value)
    assert ", in its SQL, line 1, column 40" in str(caught.value)


def test_one_view_is_one_view() -> None:
    view = f"CREATE FEATURE VIEW %s AS SELECT count(*) {W} AS n_1h FROM plays"
    with pytest.raises(DefinitionError, match="2 views"):
        sw.sql(SOURCE + view % "a" + ";" + view % "b")
    with pytest.raises(DefinitionError, match="SELECT without a name"):
        sw.sql_views(SOURCE + f"SELECT count(*) {W} AS n_1h FROM plays")
    with pytest.raises(DefinitionError, match="no view of the text"):
        sw.sql_views(SOURCE + view % "a", tests={"b": []})


def test_random_text_is_refused_and_never_breaks() -> None:
    words = [
        *"(),;*'\"/-ä\n",
        "SELECT",
        "FROM",
        "plays",
        "OVER",
        "PARTITION BY",
        "ORDER BY",
        "SLICE(ts)",
        "RANGE",
        "w",
    ]
    words += [
        "INTERVAL '1' HOUR",
        "PRECEDING",
        "CREATE",
        "SOURCE",
        "FEATURE",
        "VIEW",
        "AS",
        "WITH",
        "count(*)",
        "n_1h",
    ]
    words += [
        "GROUP BY",
        "TUMBLE(ts,",
        "user_id",
        "WHERE",
        "AND",
        "3",
        "WINDOW",
        "FILTER",
        "=>",
        "BETWEEN",
        "DISTINCT",
    ]
    seed = 20261121
    print(f"seed {seed}")
    random_words = random.Random(seed)
    for _ in range(300):
        text = SOURCE + " ".join(random_words.choices(words, k=random_words.randint(1, 30)))
        with contextlib.suppress(SqlRefused):
            read_definitions(text, "q.sql", Location("q.sql", 1), [])
