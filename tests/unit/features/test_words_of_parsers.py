"""A refusal of any text is in our words: no parser's, no engine's and no library's name stands in
it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.features.declare.project import Project
from slicewise.features.naming import Location
from slicewise.features.plan.planner import plan
from slicewise.features.rowlogic.functions.allowed import NAMES
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.features.sql import read_definitions
from tests.support.inputs.malformed import EXPRESSIONS
from tests.unit.features.sql.refusals import COUNTED, REFUSALS, SOURCE, W

KINDS = {
    "a": "string",
    "n": "long",
    "x": "double",
    "d": "date",
    "t": "timestamp_us",
    "b": "boolean",
    "dec": "decimal(10,2)",
    "arr": "array<string>",
}
FOREIGN = re.compile(
    r"sqlglot|antlr|duckdb|pyarrow|arrow|token(iz|_|T)|exp\.|anonymous|parse[rd]|Dialect|Traceback|Invalid expression"
    r"|Expecting|Expected|Required|<class|\w+Error\b|Identifier|object at|unsupported syntax"
    r"|JSONEXTRACT|STRTOTIME|UNIXTOTIME|TIMESTAMPTRUNC|ATTIMEZONE|BITWISE[A-Z]|SIMILARTO|CURRENTDATE|PARSEJSON|COMMAND"
)
TEMPLATES = (
    f"SELECT user_id, count(*) {W} AS n_1h FROM plays WHERE {{}}",
    f"SELECT user_id, sum({{}}) {W} AS n_1h FROM plays",
    f"SELECT user_id, {{}} AS y, sum(y) {W} AS n_1h FROM plays",
    f"SELECT {{}} {W} AS y FROM plays",
    f"SELECT user_id, count(*) FILTER (WHERE {{}}) {W} AS y FROM plays",
    "{}",
    "SELECT count(*) AS n FROM plays GROUP BY {}",
    "SELECT count(*) AS n FROM plays GROUP BY user_id, TUMBLE({})",
    "SELECT count(*) OVER (PARTITION BY {}) AS n FROM plays",
    "SELECT count(*) OVER (PARTITION BY user_id ORDER BY {}) AS n FROM plays",
    "SELECT count(*) OVER (ORDER BY ts RANGE BETWEEN {} PRECEDING AND CURRENT ROW) AS n FROM plays",
    f"CREATE FEATURE VIEW v WITH (slice = {{}}) AS {COUNTED}",
    "CREATE SOURCE s (a {}) WITH (timestamp='a')",
    "CREATE SOURCE s ({} STRING, ts TIMESTAMP_US) WITH (timestamp='ts', {})",
)


def own_words(error: sw.SlicewiseError, text: str) -> bool:
    """Tells whether it speaks as we do, apart from the text that it cites, and says what to do."""
    words = "\n".join((error.what, str(error.expected), error.next_step or "")).replace(
        repr(text), ""
    )
    return not FOREIGN.search(words) and bool(error.next_step)


def test_row_logic_is_refused_in_our_words(capfd: pytest.CaptureFixture[str]) -> None:
    refused = 0
    for text in EXPRESSIONS:
        try:
            parse_expression(text, KINDS, where="where of view 'v'")
        except sw.SlicewiseError as error:
            refused += 1
            if not own_words(error, text):
                raise AssertionError(f"{text!r}: {error}") from error
    assert refused > 200
    assert capfd.readouterr() == ("", ""), "and nobody else says a word"


@pytest.mark.parametrize("template", range(len(TEMPLATES)))
def test_sql_with_anything_anywhere_is_refused_in_our_words(template: int) -> None:
    for text in EXPRESSIONS[template % 3 :: 3]:
        definition(TEMPLATES[template].replace("{}", text))


def test_sql_that_is_broken_anywhere_is_refused_in_our_words() -> None:
    seed = 20261124
    print(f"seed {seed}")
    draws = random.Random(seed)
    for text in [COUNTED, *(marked.replace("›", "") for _, marked in REFUSALS.values())]:
        words = re.findall(r"\w+|\S|\s", text)
        for _ in range(4):
            at = draws.randrange(len(words))
            broken = draws.choice(
                (
                    [*words[:at], *words[at + 1 :]],
                    [*words[:at], words[at], *words[at:]],
                    words[:at],
                    [*words[:at], draws.choice(words), *words[at + 1 :]],
                )
            )
            definition("".join(broken))


def definition(text: str) -> None:
    try:
        read = read_definitions(SOURCE + text, "v.sql", Location("v.sql", 1), [])
        plan(Project.of("p", [*read.sources, *read.views, *read.queries]))
    except sw.SlicewiseError as error:
        if not own_words(error, text):
            raise AssertionError(f"{text!r}: {error}") from error


@pytest.mark.parametrize(
    ("text", "what", "instead"),
    [
        ("json_extract(a, '$.x') = 1", "JSON_EXTRACT is not on the list", "did you mean EXTRACT?"),
        ("strptime(a, 'x') is null", "STRPTIME is not on the list", ""),
        ("substrin(a, 1) = 'x'", "substrin is not on the list", "did you mean SUBSTRING?"),
        ("a ->> 'x' = 'y'", "->> is not on the list", "rewrite it"),
        ("n & 1 = 1", "& is not on the list", "rewrite it"),
        ("t at time zone 'utc' is null", "AT TIME ZONE is not on the list", "rewrite it"),
        ("(n > 1", ") is missing", "correct the text"),
        ("n > 1)", "')' is not expected here", "correct the text"),
        ("a = 'x", "a quote or a comment has no end", "correct the text"),
        (
            "abs(n, n) = 1",
            "2 arguments are given here, and at most 1 are taken",
            "correct the text",
        ),
        ("n > 1.5e", "1.5e is no number", "correct the number"),
        ("datefoo(d) = 1", "datefoo is not on the list", "did you mean"),
        ('a = "tea"', "unknown column 'tea'", "a text stands in single quotes: 'tea'"),
    ],
)
def test_it_is_told_as_it_is_written(text: str, what: str, instead: str) -> None:
    with pytest.raises(sw.SlicewiseError) as caught:
        parse_expression(text, KINDS, where="where of view 'v'", boolean=True)
    error = caught.value
    assert what in error.what
    assert instead in str(error.next_step)
    assert len(str(error.expected)) < 120, "no long list of functions"


def test_a_function_of_sql_that_there_is_not_is_answered_with_the_nearest() -> None:
    for name, instead in (
        ("summ", "did you mean sum"),
        ("nunique", "nunique is distinct_count here"),
    ):
        with pytest.raises(sw.SlicewiseError) as caught:
            read_definitions(
                f"{SOURCE}SELECT {name}(n) {W} AS x_1h FROM plays",
                "v.sql",
                Location("v.sql", 1),
                [],
            )
        assert f"unknown function {name!r}" in str(caught.value)
        assert instead in str(caught.value)
        assert "argmax" not in str(caught.value)


def test_the_page_of_sql_lists_the_functions_of_row_logic() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
    listed = page.partition("and these functions, ")[2].partition("What is not among them")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == NAMES


def test_the_command_refuses_in_our_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    for text in (
        "SELECT",
        "explain n",
        "SELECT 1",
        "SELECT * FROM",
        "(",
        "'",
        "WITH x AS (SELECT 1) SELECT * FROM x",
    ):
        assert main(["sql", text]) == 1
        output = capsys.readouterr().err
        assert output.startswith("slicewise sql: ")
        assert "next step: " in output
        assert not FOREIGN.search(output.replace(text, "")), output
