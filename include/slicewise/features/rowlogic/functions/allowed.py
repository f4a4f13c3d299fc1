"""Every function of row logic has one value in every engine, bit for bit, on every row.

A handler takes the typer and the parser's node, and gives typed nodes; `function_texts` holds what
the engines run. Offsets, lengths and units are literals, since engines differ in what odd ones
mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from slicewise.features.rowlogic.arguments import (
    of_kind_if_null,
    only_argument,
    two_arguments,
    whole_number,
)
from slicewise.features.rowlogic.coercion import coerced
from slicewise.features.rowlogic.expression import Call, Literal, Node
from slicewise.features.rowlogic.functions import numbers as number_functions
from slicewise.features.rowlogic.functions import text as text_functions
from slicewise.features.rowlogic.typer import OPERATORS, Functions, Handler, Typer
from slicewise.features.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    element_type,
)

MAX_BUCKETS = 1_000_000
TRUNCATED = {
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}
FUNCTIONS = (
    *(
        "SUBSTRING",
        "LEFT",
        "RIGHT",
        "TRIM",
        "LTRIM",
        "RTRIM",
        "REPLACE",
        "SPLIT_PART",
        "STARTS_WITH",
        "ENDS_WITH",
    ),
    *(
        "CONTAINS",
        "POSITION",
        "ASCII_LOWER",
        "ASCII_UPPER",
        "OCTET_LENGTH",
        "MOD",
        "SIGN",
        "FLOOR",
        "CEIL",
        "ROUND",
    ),
    *(
        "SQRT",
        "TRY_ADD",
        "TRY_SUBTRACT",
        "TRY_MULTIPLY",
        "TRY_DIVIDE",
        "YEAR",
        "QUARTER",
        "MONTH",
        "DAY",
        "DAYOFYEAR",
    ),
    *(
        "DAYOFWEEK",
        "WEEKOFYEAR",
        "HOUR",
        "MINUTE",
        "SECOND",
        "EXTRACT",
        "DATE",
        "DATE_TRUNC",
        "DATE_DIFF",
        "BUCKET",
    ),
    *("ARRAY_CONTAINS", "ARRAY_SIZE"),
)
NAMES = (*OPERATORS, *FUNCTIONS)
"""All functions of row logic, by the names that messages give them."""


# ---- time


def _as_date(typer: Typer, value: Node, node: exp.Expr, what: str) -> Node:
    if value.kind == TIMESTAMP:
        return Call("date", (value,), DATE)
    if value.kind != DATE:
        raise typer.refused(
            f"{what} of {value.kind}", node, "a date or an instant, which is taken in UTC"
        )
    return value


def _date_part(op: str) -> Handler:
    return lambda typer, node: Call(
        op, (_as_date(typer, typer.typed(only_argument(typer, node)), node, op.upper()),), LONG
    )


def _time_part(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        value = typer.typed(node.this)
        if value.kind != TIMESTAMP:
            raise typer.refused(
                f"{op.upper()} of {value.kind}", node, "an instant, which is taken in UTC"
            )
        return Call(op, (value,), LONG)

    return handler


def _extract(typer: Typer, node: exp.Expr) -> Node:
    part = str(node.this.name).upper()
    handler = EXTRACTED.get(part)
    if handler is None:
        raise typer.refused(f"EXTRACT of {part}", node, "one of " + ", ".join(EXTRACTED))
    return handler(typer, exp.Hour(this=node.expression))


def _to_date(typer: Typer, node: exp.Expr) -> Node:
    return _as_date(typer, typer.typed(only_argument(typer, node)), node, "DATE")


def _date_trunc(typer: Typer, node: exp.Expr) -> Node:
    unit = str(node.args["unit"].name).upper()
    value = typer.typed(node.this)
    if value.kind != TIMESTAMP or unit not in TRUNCATED:
        raise typer.refused(
            f"DATE_TRUNC of {value.kind} to {unit.lower()}",
            node,
            "an instant, to " + ", ".join(sorted(map(str.lower, TRUNCATED))),
        )
    return Call("truncate", (value, Literal(TRUNCATED[unit], LONG)), TIMESTAMP)


def _date_diff(typer: Typer, node: exp.Expr) -> Node:
    if str(node.args["unit"].name).upper() != "DAY":
        raise typer.refused("DATE_DIFF counts days", node, "DATE_DIFF('day', start, end)")
    end, start = (
        _as_date(typer, typer.typed(side), node, "DATE_DIFF")
        for side in (node.this, node.expression)
    )
    return Call("date_diff", (start, end), LONG)


# ---- the rest


def _same(typer: Typer, node: exp.Expr) -> Node:
    sides = typer.common((typer.typed(node.this), typer.typed(node.expression)), node)
    if element_type(sides[0].kind):
        raise typer.refused("arrays are not compared", node, "ARRAY_CONTAINS or ARRAY_SIZE")
    same = Call(
        "same",
        sides if sides[0].kind != "null" else tuple(coerced(s, LONG) for s in sides),
        BOOLEAN,
    )
    return same if isinstance(node, exp.NullSafeEQ) else Call("not", (same,), BOOLEAN)


def _bucket(typer: Typer, node: exp.Expr) -> Node:
    given, count = two_arguments(typer, node)
    value = of_kind_if_null(typer.typed(given), STRING)
    if value.kind not in (STRING, LONG):
        raise typer.refused(f"BUCKET of {value.kind}", node, "text or a long")
    return Call(
        "bucket",
        (coerced(value, STRING), whole_number(typer, count, node, "BUCKET", 1, MAX_BUCKETS)),
        LONG,
    )


def _array(typer: Typer, node: exp.Expr, at: exp.Expr, what: str) -> Node:
    value = typer.typed(node)
    if element_type(value.kind) is None:
        raise typer.refused(f"{what} of {value.kind}", at, "an array")
    return value


def _array_contains(typer: Typer, node: exp.Expr) -> Node:
    array = _array(typer, node.this, node, "ARRAY_CONTAINS")
    element = element_type(array.kind) or ""
    value = typer.typed(node.expression)
    if value.kind in ("null", element) or (value.kind == LONG and element == DOUBLE):
        return Call("array_contains", (array, coerced(value, element)), BOOLEAN)
    raise typer.refused(f"{value.kind} in {array.kind}", node, element)


def _array_size(typer: Typer, node: exp.Expr) -> Node:
    return Call(
        "array_size", (_array(typer, only_argument(typer, node), node, "ARRAY_SIZE"),), LONG
    )


EXTRACTED: Mapping[str, Handler] = {
    **{part: _time_part(part.lower()) for part in ("HOUR", "MINUTE", "SECOND")},
    **{part: _date_part(part.lower()) for part in ("YEAR", "QUARTER", "MONTH", "DAY")},
}
BY_NODE: Mapping[type[exp.Expr], Handler] = {
    exp.Substring: text_functions.substring,
    exp.Left: text_functions.left,
    exp.Right: text_functions.right,
    exp.Trim: text_functions.trimmed,
    exp.StartsWith: text_functions.two_texts("starts_with"),
    exp.EndsWith: text_functions.two_texts("ends_with"),
    exp.Contains: text_functions.two_texts("contains"),
    exp.Replace: text_functions.replaced,
    exp.SplitPart: text_functions.split_part,
    exp.StrPosition: text_functions.position,
    exp.Like: text_functions.like,
    exp.Mod: number_functions.whole_division("mod"),
    exp.IntDiv: number_functions.whole_division("whole_div"),
    exp.Sign: number_functions.sign,
    exp.Floor: number_functions.whole_part("floor"),
    exp.Ceil: number_functions.whole_part("ceil"),
    exp.Round: number_functions.rounded,
    exp.Sqrt: number_functions.square_root,
    exp.Year: EXTRACTED["YEAR"],
    exp.Quarter: EXTRACTED["QUARTER"],
    exp.Month: EXTRACTED["MONTH"],
    exp.Day: EXTRACTED["DAY"],
    exp.DayOfMonth: EXTRACTED["DAY"],
    exp.DayOfYear: _date_part("dayofyear"),
    exp.DayOfWeek: _date_part("dayofweek"),
    exp.WeekOfYear: _date_part("weekofyear"),
    exp.Hour: EXTRACTED["HOUR"],
    exp.Minute: EXTRACTED["MINUTE"],
    exp.Second: EXTRACTED["SECOND"],
    exp.Extract: _extract,
    exp.Date: _to_date,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.DateDiff: _date_diff,
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: _same,
    exp.ArrayContains: _array_contains,
    exp.ArraySize: _array_size,
}
BY_NAME: Mapping[str, Handler] = {
    "ASCII_LOWER": text_functions.one_text("ascii_lower"),
    "ASCII_UPPER": text_functions.one_text("ascii_upper"),
    "OCTET_LENGTH": text_functions.one_text("octet_length", LONG),
    "TRY_ADD": number_functions.try_arithmetic("add"),
    "TRY_SUBTRACT": number_functions.try_arithmetic("sub"),
    "TRY_MULTIPLY": number_functions.try_arithmetic("mul"),
    "TRY_DIVIDE": number_functions.try_arithmetic("div"),
    "BUCKET": _bucket,
    "TO_DATE": _to_date,
    "SIZE": _array_size,
    "CARDINALITY": _array_size,
}
ALLOWED_FUNCTIONS = Functions(BY_NODE, BY_NAME, NAMES)
