"""Row logic gives the brute-force value on every hostile row, never throws, and refuses all else
with its place."""

import math
import re
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings

from slicewise.errors import DefinitionError
from slicewise.features.rowlogic.expression import RowExpression
from slicewise.features.rowlogic.functions.dialects import to_duckdb, to_spark
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.features.schema.types import arrow_type
from tests.support.inputs.rowlogic_grammar import grammar
from tests.support.inputs.rowlogic_vectors import EXPRESSIONS, ROWS, SCHEMA, expected, same


def arrow(kind: str) -> pa.DataType:
    return pa.int64() if kind == "timestamp_us" else arrow_type(kind)


TABLE = pa.table(
    {name: pa.array([row[name] for row in ROWS], arrow(kind)) for name, kind in SCHEMA.items()}
)


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("rows", TABLE)
        yield connection


def check(engine: duckdb.DuckDBPyConnection, text: str) -> None:
    parsed = parse_expression(text, SCHEMA, where="here")
    column = engine.sql(f"SELECT {to_duckdb(parsed.tree)} AS v FROM rows").to_arrow_table()["v"]
    assert column.type == arrow(parsed.kind), f"{text} is {parsed.kind}"
    for row, one, other in zip(ROWS, column.to_pylist(), expected(text), strict=True):
        assert same(one, other), f"{text} on {row}: DuckDB {one!r}, expected {other!r}"


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_duckdb_gives_the_brute_force_value_of(
    engine: duckdb.DuckDBPyConnection, text: str
) -> None:
    check(engine, text)


@settings(max_examples=50, deadline=None)
@given(grammar())
def test_duckdb_gives_the_brute_force_value_of_any_expression(text: str) -> None:
    with duckdb.connect() as connection:
        connection.register("rows", TABLE)
        check(connection, text)


@given(grammar())
def test_an_expression_survives_json_and_its_canonical_form_decides_equality(text: str) -> None:
    parsed = parse_expression(text, SCHEMA, where="here")
    again = RowExpression.from_json(parsed.to_json())
    assert again == parsed
    assert to_spark(again.tree) == to_spark(parsed.tree)
    spaced = parse_expression(f"  {text} ", SCHEMA, where="here")
    assert spaced.tree == parsed.tree, "space is no difference"


def test_what_the_parser_writes_of_an_expression_is_read_as_the_same() -> None:
    for text in EXPRESSIONS:  # SQL views are read so
        written = sqlglot.parse_one(text, dialect="duckdb").sql(dialect="duckdb", comments=False)
        assert (
            parse_expression(written, SCHEMA, where="here").tree
            == parse_expression(text, SCHEMA, where="here").tree
        )


def test_computed_columns_stand_in_for_their_names() -> None:
    minutes = parse_expression("x / 60", SCHEMA, where="here")
    text = parse_expression("minutes > 1", SCHEMA, where="here", defined={"minutes": minutes})
    assert text.tree == parse_expression("x / 60 > 1", SCHEMA, where="here").tree
    assert text.columns == ("x",)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("a > 0 AND LOWER(s) = 'x'", "LOWER is not on the list", 11),
        ("UPPER(s)", "UPPER is not on the list", 1),
        ("x % 2", "% of double", 1),
        ("s LIKE r", "LIKE takes a pattern that is written out", 1),
        ("s LIKE 'a\\%'", "without a backslash", 1),
        ("SUBSTRING(s, 0)", "SUBSTRING takes a whole number that is written out", 11),
        ("SUBSTRING(s, a)", "SUBSTRING takes a whole number that is written out", 11),
        ("LEFT(s, -1)", "LEFT takes a whole number", 1),
        ("RIGHT(s, 1048577)", "RIGHT takes a whole number", 1),
        ("REPLACE(s, '', 'a')", "REPLACE takes a text that is written out", 1),
        ("SPLIT_PART(s, '@', 0)", "SPLIT_PART takes a whole number", 1),
        ("TRIM('x' FROM s)", "TRIM takes spaces away", None),
        ("ROUND(x, 1)", "ROUND of double", 1),
        ("BUCKET(s, 0)", "BUCKET takes a whole number", 1),
        ("BUCKET(x, 4)", "BUCKET of double", 1),
        ("BUCKET(s)", "BUCKET takes two values", 1),
        ("HOUR(e)", "HOUR of date", 1),
        ("YEAR(s)", "YEAR of string", 1),
        ("DATE_TRUNC('week', t)", "DATE_TRUNC of timestamp_us to week", None),
        ("DATE_DIFF('month', e, w)", "DATE_DIFF counts days", None),
        ("e + 1", "arithmetic on date", 1),
        ("e = '2024-01-01'", "values of different types: date, string", 1),
        ("DATE '2024-02-30'", "is no date", None),
        ("l = l", "arrays are not compared", 1),
        ("GREATEST(l, l)", "arrays are not compared", 1),
        ("ARRAY_CONTAINS(l, 1)", "long in array<string>", 1),
        ("ARRAY_SIZE(s)", "ARRAY_SIZE of string", 1),
        ("d / d", "div of decimal(10,2) and decimal(10,2)", 1),
        ("d * x", "mul of decimal(10,2) and double", 1),
        ("h * h * h", "needs 56 digits", 1),
        ("CAST(d AS BIGINT)", "FLOOR or CEIL it first", None),
        ("CAST(x AS DECIMAL(10,2))", "CAST of double to decimal(10,2)", None),
        ("CAST(a AS DECIMAL(39,0))", "CAST to DECIMAL", None),
        ("POWER(x, 2)", "POWER is not on the list", 1),
        ("SUM(a)", "an aggregate is not row logic", 1),
        ("CBRT(x)", "CBRT is not on the list", None),
        ("myfunction(a)", "myfunction is not on the list", 1),
        ("a = (SELECT 1)", "not row logic", None),
        ("SELECT a", "a query is not row logic", None),
        ("a AS c", "ALIAS is not on the list", 1),
        ("a.b", "without a table", 1),
        ("a > 1 AND nope = 2", "unknown column 'nope'", 11),
        ("s + 1", "arithmetic on string", 1),
        ("d > 1.234", "double beside decimal", 1),
        ("s = 1", "values of different types: long, string", 1),
        ("t > 5", "values of different types: long, timestamp_us", 1),
        ("CAST(x AS STRING)", "CAST of double to string", None),
        ("CAST(a AS DATE)", "CAST of long to date", None),
        ("CAST(a AS TIME)", "CAST to TIME", None),
        ("LENGTH(a)", "LENGTH of long", None),
        ("CONCAT(s, a)", "CONCAT of long", None),
        ("f IS TRUE", "IS is for NULL only", 1),
        ("a IN (SELECT 1)", "IN takes a list", 1),
        ("9223372036854775808", "does not fit 64 bits", 1),
        ("1e400", "beyond the largest double", 1),
        ("a AND f", "a condition is boolean", 1),
        ("NULL", "always null", None),
        ("a +", "no expression", None),
        ("a, b", "no expression", 2),
        ("a; b", "not one expression", None),
        ("", "row logic is an expression", None),
        ("CURRENT_TIMESTAMP", "a clock is not row logic", None),
        ("RAND() > 0.5", "a random number is not row logic", None),
        ("GREATEST(a)", "at least two", None),
        ("LEAST(f, g)", "LEAST of booleans", None),
        ("'\x01'", "control characters", 1),
    ],
)
def test_what_is_not_on_the_list_is_refused_with_its_place(
    text: str, message: str, position: int | None
) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)) as refused:
        parse_expression(text, SCHEMA, where="where of view 'v'")
    assert "where of view 'v'" in str(refused.value.where)
    if position is not None:
        assert f"character {position}" in str(refused.value.where)
    assert refused.value.expected


def test_a_condition_must_be_boolean() -> None:
    with pytest.raises(DefinitionError, match="a condition is boolean, this is long"):
        parse_expression("a + 1", SCHEMA, where="here", boolean=True)


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(DefinitionError) as refused:
        parse_expression("secs > 1", {"seconds": "double"}, where="here")
    assert "seconds" in str(refused.value.next_step)


@pytest.mark.parametrize(
    "text", ["(" * 3000 + "a" + ")" * 3000, "-" * 4000 + "a", "NULLIF(" * 600 + "a" + ", 1)" * 600]
)
def test_an_expression_without_measure_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        parse_expression(text, SCHEMA, where="here")


def test_spark_text_holds_no_substitution_and_no_unescaped_quote() -> None:
    text = to_spark(parse_expression("s = '${env:HOME}''\\'", SCHEMA, where="here").tree)
    assert "$" not in text
    assert text == r"(`s` = '\u0024{env:HOME}\'\\')"


def test_an_expression_of_constants_is_no_surprise() -> None:
    assert expected("1 / 3")[0] == 1 / 3
    assert math.isinf(expected("1e308 * 10")[0])
