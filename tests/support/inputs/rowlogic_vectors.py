"""Hostile rows, expressions over them, and the values that every engine must give: the parity of
row logic.

`SCHEMA` and `ROWS` are the input, `EXPRESSIONS` the vectors; `expected(text)` evaluates one by
brute force over the parsed tree, in plain Python, sharing nothing with the texts that engines run.
Timestamps are integers of microseconds, in the rows too. Compare doubles by `same`: bits, with one
NaN and no negative zero.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
import struct
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

from slicewise.features.rowlogic.expression import Call, ColumnRef, Literal, Node
from slicewise.features.rowlogic.reader import parse_expression

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
    "h": "decimal(18,0)",
    "i": "decimal(5,3)",
    "e": "date",
    "w": "date",
    "l": "array<string>",
    "m": "array<long>",
}
TOP, BOTTOM, NAN, INF = 2**63 - 1, -(2**63), math.nan, math.inf

_LONGS = [0, 1, -1, 7, TOP, BOTTOM, TOP - 1, 2**53 + 1, 1000, None]
_DOUBLES = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    NAN,
    INF,
    -INF,
    1.7976931348623157e308,
    5e-324,
    9.223372036854775e18,
    2.0**63,
    None,
]
_DOUBLES += [-(2.0**63), -9.223372036854778e18, 0.1, 1e16]
_TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "é",
    "e\u0301",
    "Z",
    "😀",
    "ǅ",
    "\x00",
    "it's",
    "$x",
    "back\\slash",
    None,
    "a ",
    "%_",
]
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
_TEXTS += [
    "1_000",
    "0x1F",
    "NaN",
    "1e400",
    "٣",
    "007",
    "-",
    "1.",
    "123456789012345678901234567890.5",
    "4.9e-99",
]
_BOOLEANS = [True, False, None]
_TIMES = [0, 1, 1_790_000_000_000_000, None]
_TEXTS += [
    "  pad  ",
    "\t\u00a0tab",
    "a@b@c",
    "@",
    "@@",
    "%a_b",
    "ÀÉß",
    "xyZ",
    "2024-02-29",
    "2023-02-29",
    "0001-01-01",
]
_TEXTS += [
    "0000-01-01",
    "9999-12-31",
    "2024-2-9",
    "2024-02-29\n",
    "\u2003em",
    "👩\u200d👩",
    "İı",
    "e\u0301e\u0301",
]
_TIMES += [1_709_164_800_000_000, 253_402_300_799_999_999, 951_782_399_999_999]
_DECIMALS = [
    Decimal("0.00"),
    Decimal("10.50"),
    Decimal("-99999999.99"),
    Decimal("0.01"),
    None,
    Decimal("-0.05"),
]
_DECIMALS += [Decimal("0.05"), Decimal("2.50"), Decimal("-2.45"), Decimal("99999999.99")]
_WHOLES = [Decimal(0), Decimal(10**18 - 1), Decimal(-(10**18) + 1), Decimal(7), None]
_THOUSANDTHS = [
    Decimal("0.500"),
    Decimal("-0.500"),
    Decimal("99.999"),
    Decimal("-99.999"),
    None,
    Decimal("1.001"),
]
_DATES = [
    date(1970, 1, 1),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(1, 1, 1),
    date(9999, 12, 31),
    None,
]
_DATES += [
    date(1582, 10, 10),
    date(2000, 1, 2),
    date(2021, 1, 3),
    date(2020, 12, 31),
    date(1900, 3, 1),
]
_LISTS = [["a", "b"], [], None, ["a", None], [None], ["", "é", "a"]]
_NUMBERS = [[1, 7], [], None, [TOP, None, BOTTOM], [0, 0]]


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
        "h": _cycle(_WHOLES, i // 2, 1),
        "i": _cycle(_THOUSANDTHS, i, 1),
        "e": _cycle(_DATES, i, 1),
        "w": _cycle(_DATES, i // 6 + i, 5),
        "l": _cycle(_LISTS, i, 1),
        "m": _cycle(_NUMBERS, i, 1),
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
    # comparisons: NaN equals itself and is above all, text by its bytes, long beside double as
    # double
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
    "CAST(a AS DECIMAL(10,2))", "CAST(d AS DECIMAL(5,1))", "CAST(d AS DECIMAL(20,6))", "CAST(h AS BIGINT)",
    "CAST(s AS DATE)", "CAST(t AS DATE)", "CAST(e AS STRING)", "DATE '2024-02-29'",
    "CAST(CAST(x AS BIGINT) AS STRING)", "CAST(s AS DOUBLE) / CAST(r AS DOUBLE)", "CAST(t AS BIGINT) > 5",
    # functions of text
    "SUBSTRING(s, 2, 3)", "SUBSTRING(s, 1, 0)", "SUBSTRING(s, 3)", "LEFT(s, 2)", "RIGHT(s, 2)", "RIGHT(s, 0)",
    "TRIM(s)", "LTRIM(s)", "RTRIM(s)", "STARTS_WITH(s, r)", "ENDS_WITH(s, r)", "CONTAINS(s, r)", "CONTAINS(s, '')",
    "STARTS_WITH(s, 'a')", "ENDS_WITH(s, '')", "REPLACE(s, 'a', 'bb')", "REPLACE(s, '@', '')", "REPLACE(s, 'é', r)",
    "SPLIT_PART(s, '@', 1)", "SPLIT_PART(s, '@', 2)", "SPLIT_PART(s, '@', 9)", "SPLIT_PART(s, '@@', 2)",
    "POSITION('b' IN s)", "POSITION('é' IN s)", "STRPOS(s, '@')", "s LIKE 'a%'", "s LIKE '%a_%'", "s NOT LIKE '_'",
    "s LIKE '%'", "s LIKE ''", "s LIKE '__'", "s LIKE '%.5'", "s LIKE '(%'",
    "ASCII_LOWER(s)", "ASCII_UPPER(s)", "OCTET_LENGTH(s)", "BUCKET(s, 16)",
    "BUCKET(a, 1000000)", "BUCKET(s || r, 1)",
    # functions of numbers
    "a % b", "MOD(a, 7)", "a % 0", "a // b", "a // 0", "a // 7", "SIGN(a)", "SIGN(x)", "SIGN(d)", "FLOOR(x)", "CEIL(x)",
    "FLOOR(a)", "FLOOR(d)", "CEIL(d)", "CEIL(h)", "FLOOR(i)", "ROUND(d, 1)", "ROUND(d)", "ROUND(i, 2)", "ROUND(i)",
    "ROUND(a, 1)", "ROUND(d, 5)", "SQRT(x)", "SQRT(a)", "TRY_ADD(a, b)", "TRY_SUBTRACT(a, b)", "TRY_MULTIPLY(a, b)",
    "TRY_DIVIDE(a, b)", "TRY_DIVIDE(x, y)",
    "d + d", "d - h", "d * i", "d * 2", "d + 0.5", "d - a", "1 - d", "-d", "ABS(d)", "d * d * 1.25", "ROUND(d * i, 2)",
    "CAST(FLOOR(d) AS BIGINT)", "h * h", "CAST(i AS DOUBLE) / 2",
    # dates and instants, in UTC
    "YEAR(e)", "QUARTER(e)", "MONTH(e)", "DAY(e)", "DAYOFYEAR(e)", "DAYOFWEEK(e)", "WEEKOFYEAR(e)", "YEAR(t)",
    "DAYOFWEEK(t)", "HOUR(t)", "MINUTE(t)", "SECOND(t)", "EXTRACT(HOUR FROM u)", "EXTRACT(YEAR FROM e)", "DATE(t)",
    "TO_DATE(u)", "DATE_TRUNC('hour', t)", "DATE_TRUNC('day', t)", "DATE_TRUNC('second', t)", "DATE_TRUNC('minute', u)",
    "DATE_DIFF('day', e, w)", "DATE_DIFF('day', e, t)", "e < w", "e = w", "e >= DATE '2000-01-01'", "LEAST(e, w)",
    "GREATEST(e, w, DATE '1999-12-31')", "COALESCE(e, w)", "e IN (DATE '1970-01-01', DATE '2024-02-29')", "e IS NULL",
    "CASE WHEN e > w THEN e ELSE w END", "NULLIF(e, w)", "YEAR(CAST(s AS DATE))",
    # nulls, and arrays
    "a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b", "x IS NOT DISTINCT FROM y", "s IS DISTINCT FROM r",
    "e IS DISTINCT FROM NULL", "f IS NOT DISTINCT FROM g", "ARRAY_CONTAINS(l, 'a')", "ARRAY_CONTAINS(l, s)",
    "ARRAY_CONTAINS(m, a)", "ARRAY_CONTAINS(m, NULL)", "ARRAY_SIZE(l)", "SIZE(m)", "l IS NULL",
    "IF(f, l, NULL) IS NULL",
    "ARRAY_SIZE(COALESCE(l, IF(g, l, NULL)))",
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
        is_day = node.kind == "date" and node.value is not None
        return date.fromisoformat(str(node.value)) if is_day else node.value
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
    if node.op == "same":
        nulls = [value is None for value in args]
        return all(nulls) if any(nulls) else _rank(args[0]) == _rank(args[1])
    if node.op in ("and", "or"):
        decisive = node.op == "or"
        return decisive if decisive in args else (None if None in args else not decisive)
    if node.op in ("coalesce", "least", "greatest"):
        present = [value for value in args if value is not None]
        if not present:
            return None
        if node.op == "coalesce":
            return present[0]
        return (min if node.op == "least" else max)(present, key=_rank)
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
    if op in FUNCTIONS:
        return FUNCTIONS[op](*args)
    if op in ("floor", "ceil"):
        return _rounded(math.floor if op == "floor" else math.ceil, args[0])
    if node.kind.startswith("decimal"):
        with localcontext(Context(prec=100)):
            return _ARITHMETIC[op](*args)
    whole = _ARITHMETIC[op](*args)
    if node.kind == "long" and not BOTTOM <= whole <= TOP:
        return None
    return whole


def _rounded(how: Callable[[Any], int], value: Any) -> Any:
    if isinstance(value, Decimal):
        return Decimal(how(value))
    if not math.isfinite(value):
        return None
    # beyond the doubles that a long holds, also where the rounded one would be one again
    return how(value) if -(2.0**63) <= value < 2.0**63 else None


def _ieee_div(a: float, b: float) -> float:
    return a / b  # neither is zero by division here; infinities and NaN are as IEEE in Python too


def _rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


def _cast(source: str, target: str, value: Any) -> Any:
    if target.startswith("decimal"):
        digits, scale = (int(part) for part in target[8:-1].split(","))
        with localcontext(Context(prec=100)):
            rounded = Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        return (
            rounded
            if len(str(abs(int(rounded.scaleb(scale, Context(prec=100)))))) <= digits
            else None
        )
    if target == "date":
        try:
            return (
                date.fromisoformat(value)
                if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value)
                else None
            )
        except ValueError:
            return None
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


EPOCH = date(1970, 1, 1)


def _day(value: date | int) -> date:
    return value if isinstance(value, date) else EPOCH + timedelta(days=value // 86_400_000_000)


def _like(text: str, pattern: str) -> bool:
    parts = {"%": ".*", "_": "."}
    return (
        re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), text, re.DOTALL)
        is not None
    )


def _part(text: str, delimiter: str, n: int) -> str:
    parts = text.split(delimiter)
    return parts[n - 1] if n <= len(parts) else ""


def _ascii(change: str) -> Callable[[str], str]:
    return lambda text: "".join(getattr(c, change)() if c.isascii() else c for c in text)


def _mod(a: int, b: int) -> int | None:
    return None if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))


def _whole_div(a: int, b: int) -> int | None:
    quotient = None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if quotient is None or quotient <= TOP else None


def _sqrt(value: float) -> float | None:
    return math.sqrt(value) if value >= 0 or math.isnan(value) else None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "substring": lambda text, start, length: text[start - 1 : start - 1 + length],
    "right": lambda text, n: text[len(text) - n :] if n <= len(text) else text,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda text, other: other in text,
    "replace": str.replace,
    "split_part": _part,
    "position": lambda text, other: text.find(other) + 1,
    "like": _like,
    "ascii_lower": _ascii("lower"),
    "ascii_upper": _ascii("upper"),
    "octet_length": lambda text: len(text.encode()),
    "bucket": lambda text, n: int(hashlib.md5(text.encode()).hexdigest()[:15], 16) % n,
    "mod": _mod,
    "whole_div": _whole_div,
    "sqrt": _sqrt,
    "date": _day,
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "dayofyear": lambda day: day.timetuple().tm_yday,
    "weekofyear": lambda day: day.isocalendar().week,
    "dayofweek": lambda day: day.isoweekday() % 7 + 1,
    "date_diff": lambda start, end: (end - start).days,
    "hour": lambda us: us // 3_600_000_000 % 24,
    "minute": lambda us: us // 60_000_000 % 60,
    "second": lambda us: us // 1_000_000 % 60,
    "truncate": lambda us, unit: us // unit * unit,
    "array_contains": lambda values, value: value in values,
    "array_size": len,
}
