"""Hostile rows, expressions over them, and the values that every engine must give: the parity of row logic.

`SCHEMA` and `ROWS` are the input, `EXPRESSIONS` the vectors; `expected(text)` evaluates one by brute force over the
parsed tree, in plain Python, sharing nothing with the texts that engines run. Timestamps are integers of microseconds,
in the rows too. Compare doubles by `same`: bits, with one NaN and no negative zero.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from slicewise.features.expression import Call, ColumnRef, Literal, Node
from slicewise.features.rowlogic import parse_expression

SCHEMA = {
    "a": "long",
    "b": "long",
    "x": "double",
    "y": "double",
    "s": "string",
    "r": "string",
    "f": "boolean",
    "g": "boolean",
    "t": "timestamp_us",
    "u": "timestamp_us",
    "d": "decimal(10,2)",
}
TOP, BOTTOM, NAN, INF = 2**63 - 1, -(2**63), math.nan, math.inf

_LONGS = [0, 1, -1, 7, TOP, BOTTOM, TOP - 1, 2**53 + 1, 1000, None]
_DOUBLES = [0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 1.7976931348623157e308, 5e-324, 9.223372036854775e18, 2.0**63, None]
_DOUBLES += [-(2.0**63), -9.223372036854778e18, 0.1, 1e16]
_TEXTS = ["", "a", "b", "ab", "é", "e\u0301", "Z", "😀", "ǅ", "\x00", "it's", "$x", "back\\slash", None, "a ", "%_"]
_TEXTS += [
    "12",
    "-0",
    "+5",
    " 12",
    "12\n",
    "9223372036854775807",
    "9223372036854775808",
    "1.5",
    "1e3",
    "-1.25E-3",
    ".5",
]
_TEXTS += ["1_000", "0x1F", "NaN", "1e400", "٣", "007", "-", "1.", "123456789012345678901234567890.5", "4.9e-99"]
_BOOLEANS = [True, False, None]
_TIMES = [0, 1, 1_790_000_000_000_000, None]
_DECIMALS = [Decimal("0.00"), Decimal("10.50"), Decimal("-99999999.99"), Decimal("0.01"), None]


def _cycle(values: list[Any], i: int, stride: int) -> Any:
    return values[(i * stride) % len(values)]


ROWS: list[dict[str, Any]] = [
    {
        "a": _cycle(_LONGS, i, 1),
        "b": _cycle(_LONGS, i // 3 + i, 3),
        "x": _cycle(_DOUBLES, i, 1),
        "y": _cycle(_DOUBLES, i // 5 + i, 3),
        "s": _cycle(_TEXTS, i, 1),
        "r": _cycle(_TEXTS, i // 7 + i, 2),
        "f": _cycle(_BOOLEANS, i, 1),
        "g": _cycle(_BOOLEANS, i // 3, 1),
        "t": _cycle(_TIMES, i, 1),
        "u": _cycle(_TIMES, i // 4, 1),
        "d": _cycle(_DECIMALS, i, 1),
    }
    for i in range(240)
]

EXPRESSIONS = [
    # constants and columns
    "42", "-9223372036854775808", "1.5", "1e-3", "'it''s'", "'$x \\ %_'", "'😀é'", "TRUE", "a", "x", "s", "d", "t",
    # arithmetic: overflow and division by zero are null, infinities and NaN are as IEEE says
    "a + b", "a - b", "a * b", "-a", "ABS(a)", "a / b", "a + 1", "a * 2 - b", "9223372036854775807 + a",
    "x + y", "x - y", "x * y", "x / y", "-x", "ABS(x)", "x / 0", "a / 0", "a * x", "a + 0.5", "x * 1e308 * 10",
    "(a + b) * (a - b)", "ABS(a - b) / ABS(b)", "a * 60 / b",
    # comparisons: NaN equals itself and is above all, text by its bytes, long beside double as double
    "a = b", "a <> b", "a < b", "a <= b", "a > b", "a >= b", "x = y", "x <> y", "x < y", "x <= y", "x > y", "x >= y",
    "a = x", "a < x", "s = r", "s < r", "s >= r", "s = ''", "s > 'a'", "s = 'it''s'", "s = '$x'", "s = 'back\\slash'",
    "f = g", "t < u", "t = u", "d > 10.5", "d = 0.01", "d <> 7", "x = x", "x > 0.1", "x >= -0.0", "x = 0", "s <> '😀'",
    # three-valued logic
    "f AND g", "f OR g", "NOT f", "f AND NOT g OR f IS NULL", "a > 0 AND x > 0", "a > 0 OR x / y > 1",
    "f = NULL", "a IS NULL", "a IS NOT NULL", "x / y IS NULL", "NULL IS NULL", "NOT (a > b)",
    # lists and ranges
    "a IN (1, 7, -1)", "a NOT IN (1, 7)", "a IN (1, NULL)", "a NOT IN (1, NULL)", "s IN ('a', 'é')", "x IN (1.5, 0)",
    "a BETWEEN 0 AND 7", "x BETWEEN -2.5 AND 1.5", "s BETWEEN 'a' AND 'b'", "a NOT BETWEEN 0 AND b",
    "d IN (0.01, 10.5)",
    # choices
    "CASE WHEN a > 0 THEN 'up' WHEN a < 0 THEN 'down' ELSE 'flat' END", "CASE WHEN f THEN a END",
    "CASE a WHEN 1 THEN x WHEN 7 THEN b END", "CASE WHEN f THEN a ELSE x END", "IF(g, s, r)", "IF(f, a, NULL)",
    "CASE WHEN b <> 0 THEN a / b ELSE 0 END", "COALESCE(a, b, 5)", "COALESCE(x, a)", "COALESCE(s, r, '')",
    "NULLIF(a, b)", "NULLIF(x, y)", "NULLIF(s, 'a')", "LEAST(a, b)", "GREATEST(a, b, 0)", "LEAST(x, y)",
    "GREATEST(x, y)",
    "LEAST(s, r)", "GREATEST(s, r)", "LEAST(a, x)", "GREATEST(t, u)", "LEAST(a, NULL)", "GREATEST(x, NULL, 0.5)",
    "LEAST(d, 5)", "COALESCE(d, 0)", "CASE WHEN d > 0 THEN d ELSE -1.5 END",
    # text
    "LENGTH(s)", "s || r", "CONCAT(s, '-', r)", "LENGTH(CONCAT(s, r))", "CONCAT(s, CAST(a AS STRING))",
    "LENGTH(s) * 2 > a",
    # casts
    "CAST(a AS DOUBLE)", "CAST(x AS BIGINT)", "CAST(a AS STRING)", "CAST(s AS BIGINT)", "CAST(s AS DOUBLE)",
    "CAST(f AS BIGINT)", "CAST(f AS DOUBLE)", "CAST(t AS BIGINT)", "CAST(d AS DOUBLE)", "CAST(x * 1e3 AS BIGINT) / 7",
    "CAST(CAST(x AS BIGINT) AS STRING)", "CAST(s AS DOUBLE) / CAST(r AS DOUBLE)", "CAST(t AS BIGINT) > 5",
]  # fmt: skip


def expected(text: str, rows: list[dict[str, Any]] | None = None) -> list[Any]:
    """The value of an expression on each row."""
    tree = parse_expression(text, SCHEMA, where="a vector").tree
    return [value_of(tree, row) for row in (ROWS if rows is None else rows)]


def same(one: Any, other: Any) -> bool:
    """Equal as stored values: type, bits, one NaN, no negative zero."""
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("<d", _plain(one)) == struct.pack("<d", _plain(other))
    return type(one) is type(other) and one == other


def _plain(value: float) -> float:
    return math.nan if math.isnan(value) else value + 0.0


def value_of(node: Node, row: dict[str, Any]) -> Any:
    """One value, by the meaning that the module docstring of rowlogic states."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, ColumnRef):
        return row[node.name]
    if node.op == "case":
        *pairs, default = node.args
        for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
            if value_of(condition, row) is True:
                return value_of(value, row)
        return value_of(default, row)
    args = [value_of(argument, row) for argument in node.args]
    if node.op == "is_null":
        return args[0] is None
    if node.op in ("and", "or"):
        decisive = node.op == "or"
        return decisive if decisive in args else (None if None in args else not decisive)
    if node.op in ("coalesce", "least", "greatest"):
        known = [value for value in args if value is not None]
        if not known:
            return None
        if node.op == "coalesce":
            return known[0]
        return (min if node.op == "least" else max)(known, key=_rank)
    return None if None in args else _strict(node, args)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": abs,
}


def _strict(node: Call, args: list[Any]) -> Any:
    op = node.op
    if op == "not":
        return not args[0]
    if op in ("eq", "ne", "lt", "le", "gt", "ge"):
        one, other = _rank(args[0]), _rank(args[1])
        return {
            "eq": one == other, "ne": one != other, "lt": one < other,
            "le": one <= other, "gt": one > other, "ge": one >= other,
        }[op]  # fmt: skip
    if op == "concat":
        return "".join(args)
    if op == "length":
        return len(args[0])
    if op == "cast":
        return _cast(node.args[0].kind, node.kind, args[0])
    if op == "div":
        return None if args[1] == 0 else _ieee_div(*args)
    whole = _ARITHMETIC[op](*args)
    if node.kind == "long" and not BOTTOM <= whole <= TOP:
        return None
    return whole


def _ieee_div(a: float, b: float) -> float:
    return a / b  # neither is zero by division here; infinities and NaN are as IEEE in Python too


def _rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def _cast(source: str, target: str, value: Any) -> Any:
    if target == "double":
        if source == "string":
            matched = re.fullmatch(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?", value)
            return float(value) if matched else None
        return float(value)
    if target == "string":
        return str(value)
    if source == "double":
        if math.isnan(value) or not -(2.0**63) <= value < 2.0**63:
            return None
        return math.trunc(value)
    if source == "string":
        inside = re.fullmatch("-?[0-9]{1,19}", value) and BOTTOM <= int(value) <= TOP
        return int(value) if inside else None
    return int(value)
