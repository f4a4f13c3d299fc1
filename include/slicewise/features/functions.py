"""A function is on the list of row logic only if every engine gives its value, bit for bit, on every row.

Each handler takes the typer and the parser's node, and gives typed nodes; `function_texts` holds what the
engines run. Offsets, lengths and units are literals, since engines differ in what odd ones mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from slicewise.features.coercion import coerced, decimal_beside, decimal_sum, decimal_times
from slicewise.features.expression import Call, Literal, Node
from slicewise.features.types import BOOLEAN, DATE, DOUBLE, LONG, STRING, TIMESTAMP, decimal_parts, element_type

if TYPE_CHECKING:
    from slicewise.features.typer import Typer

Handler = Callable[["Typer", exp.Expr], Node]

MAX_TEXT = 1 << 20
"""Characters of the longest text that a record holds: offsets and lengths beyond are none."""
MAX_BUCKETS = 1_000_000
MAX_DIGITS = 38
TRUNCATED = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000, "DAY": 86_400_000_000}
FUNCTIONS = (
    "SUBSTRING, LEFT, RIGHT, TRIM, LTRIM, RTRIM, REPLACE, SPLIT_PART, STARTS_WITH, ENDS_WITH, CONTAINS, POSITION, "
    "LIKE, ASCII_LOWER, ASCII_UPPER, OCTET_LENGTH, % or MOD, // , SIGN, FLOOR, CEIL, ROUND of decimals, SQRT, "
    "TRY_ADD, TRY_SUBTRACT, TRY_MULTIPLY, TRY_DIVIDE, YEAR, QUARTER, MONTH, DAY, DAYOFYEAR, DAYOFWEEK, WEEKOFYEAR, "
    "HOUR, MINUTE, SECOND, DATE, DATE_TRUNC, DATE_DIFF, IS [NOT] DISTINCT FROM, BUCKET, ARRAY_CONTAINS, ARRAY_SIZE"
)


def _text(typer: Typer, node: exp.Expr | None, at: exp.Expr, what: str) -> Node:
    value = coerced_null(typer.typed(node), STRING) if node is not None else Literal(None, STRING)
    if value.kind != STRING:
        raise typer.refused(f"{what} of {value.kind}", at, "text")
    return value


def coerced_null(node: Node, kind: str) -> Node:
    """The node, a bare NULL as a null of the kind."""
    return coerced(node, kind) if node.kind == "null" else node


def _whole(typer: Typer, node: exp.Expr | None, at: exp.Expr, what: str, least: int, greatest: int) -> Literal:
    value = typer.typed(node) if node is not None else None
    number = value.value if isinstance(value, Literal) and value.kind == LONG else None
    if isinstance(value, Literal) and isinstance(number, int) and least <= number <= greatest:
        return value
    raise typer.refused(f"{what} takes a whole number that is written out", at, f"{least} to {greatest}")


def _written(typer: Typer, node: exp.Expr | None, at: exp.Expr, what: str) -> Literal:
    value = typer.typed(node) if node is not None else None
    if isinstance(value, Literal) and value.kind == STRING and value.value:
        return value
    raise typer.refused(f"{what} takes a text that is written out", at, "at least one character in quotes")


# ---- text


def _substring(typer: Typer, node: exp.Expr) -> Node:
    text = _text(typer, node.this, node, "SUBSTRING")
    start = _whole(typer, node.args.get("start"), node, "SUBSTRING", 1, MAX_TEXT)
    length = node.args.get("length")
    count = Literal(MAX_TEXT, LONG) if length is None else _whole(typer, length, node, "SUBSTRING", 0, MAX_TEXT)
    return Call("substring", (text, start, count), STRING)


def _left(typer: Typer, node: exp.Expr) -> Node:
    count = _whole(typer, node.expression, node, "LEFT", 0, MAX_TEXT)
    return Call("substring", (_text(typer, node.this, node, "LEFT"), Literal(1, LONG), count), STRING)


def _right(typer: Typer, node: exp.Expr) -> Node:
    count = _whole(typer, node.expression, node, "RIGHT", 0, MAX_TEXT)
    return Call("right", (_text(typer, node.this, node, "RIGHT"), count), STRING)


def _trim(typer: Typer, node: exp.Expr) -> Node:
    if node.args.get("expression") is not None:
        raise typer.refused("TRIM takes spaces away, and nothing else", node, "TRIM(text)")
    op = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    return Call(op, (_text(typer, node.this, node, op.upper()),), STRING)


def _two_texts(op: str, kind: str = BOOLEAN, second: str = "expression") -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        parts = (node.this, node.args.get(second))
        return Call(op, tuple(_text(typer, part, node, op.upper()) for part in parts), kind)

    return handler


def _replace(typer: Typer, node: exp.Expr) -> Node:
    text = _text(typer, node.this, node, "REPLACE")
    searched = _written(typer, node.expression, node, "REPLACE")
    return Call("replace", (text, searched, _text(typer, node.args.get("replacement"), node, "REPLACE")), STRING)


def _split_part(typer: Typer, node: exp.Expr) -> Node:
    text = _text(typer, node.this, node, "SPLIT_PART")
    delimiter = _written(typer, node.args.get("delimiter"), node, "SPLIT_PART")
    return Call(
        "split_part", (text, delimiter, _whole(typer, node.args.get("part_index"), node, "SPLIT_PART", 1, 1000)), STRING
    )


def _position(typer: Typer, node: exp.Expr) -> Node:
    searched = _written(typer, node.args.get("substr"), node, "POSITION")
    return Call("position", (_text(typer, node.this, node, "POSITION"), searched), LONG)


def _like(typer: Typer, node: exp.Expr) -> Node:
    pattern = typer.typed(node.expression)
    if not isinstance(pattern, Literal) or pattern.kind != STRING or "\\" in str(pattern.value):
        raise typer.refused("LIKE takes a pattern that is written out, without a backslash", node, "such as 'a%'")
    found = Call("like", (_text(typer, node.this, node, "LIKE"), pattern), BOOLEAN)
    return Call("not", (found,), BOOLEAN) if node.args.get("negate") else found


def _one_text(op: str, kind: str = STRING) -> Handler:
    return lambda typer, node: Call(op, (_text(typer, _only(typer, node), node, op.upper()),), kind)


def _arguments(node: exp.Expr) -> Sequence[exp.Expr]:
    return node.expressions if isinstance(node, exp.Anonymous) else (node.this, *node.expressions)


def _only(typer: Typer, node: exp.Expr) -> exp.Expr:
    arguments = _arguments(node)
    if len(arguments) != 1:
        raise typer.refused(f"{node.name or node.key.upper()} takes one value", node)
    return arguments[0]


def _pair(typer: Typer, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    if len(node.expressions) != 2:
        raise typer.refused(f"{node.name} takes two values", node)
    return node.expressions[0], node.expressions[1]


# ---- numbers


def _whole_division(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        sides = [coerced_null(typer.typed(side), LONG) for side in (node.this, node.expression)]
        for side in sides:
            if side.kind != LONG:
                raise typer.refused(f"{'%' if op == 'mod' else '//'} of {side.kind}", node, "longs")
        return Call(op, tuple(sides), LONG)

    return handler


def _sign(typer: Typer, node: exp.Expr) -> Node:
    value = coerced_null(typer.typed(node.this), LONG)
    parts = decimal_parts(value.kind)
    if value.kind not in (LONG, DOUBLE) and not parts:
        raise typer.refused(f"SIGN of {value.kind}", node, "a number")
    zero: int | float | Decimal = Decimal(0).scaleb(-parts[1]) if parts else 0.0 if value.kind == DOUBLE else 0
    against = Literal(zero, value.kind)
    tests = [
        part
        for op, sign in (("gt", 1), ("lt", -1), ("eq", 0))
        for part in (Call(op, (value, against), BOOLEAN), Literal(sign, LONG))
    ]
    return Call("case", (*tests, Literal(None, LONG)), LONG)


def _floor(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        value = coerced_null(typer.typed(node.this), LONG)
        parts = decimal_parts(value.kind)
        if value.kind == LONG or (parts and parts[1] == 0):
            return value
        if parts:
            return Call(op, (value,), f"decimal({parts[0] - parts[1] + 1},0)")
        if value.kind != DOUBLE:
            raise typer.refused(f"{op.upper()} of {value.kind}", node, "a number")
        return Call(op, (value,), LONG)

    return handler


def _round(typer: Typer, node: exp.Expr) -> Node:
    value = coerced_null(typer.typed(node.this), LONG)
    given = node.args.get("decimals")
    parts = decimal_parts(value.kind)
    digits = _whole(typer, given, node, "ROUND", 0, MAX_DIGITS).value if given is not None else 0
    if value.kind == LONG:
        return value
    if not parts:
        raise typer.refused(
            f"ROUND of {value.kind}",
            node,
            "a decimal: what half of a double's last digit is, Spark and DuckDB answer differently",
            "FLOOR(x * 100 + 0.5) / 100, or declare the column as a decimal",
        )
    assert isinstance(digits, int)
    if digits >= parts[1]:
        return value
    return Call("cast", (value,), f"decimal({min(MAX_DIGITS, parts[0] - parts[1] + digits + 1)},{digits})")


def _sqrt(typer: Typer, node: exp.Expr) -> Node:
    value = coerced_null(typer.typed(node.this), DOUBLE)
    if value.kind not in (LONG, DOUBLE):
        raise typer.refused(f"SQRT of {value.kind}", node, "a long or a double")
    return Call("sqrt", (coerced(value, DOUBLE),), DOUBLE)


def decimal_arithmetic(typer: Typer, op: str, node: exp.Expr, left: Node, right: Node) -> Node:
    """Exact arithmetic of decimals: the result has as many digits as it can need, or is refused."""
    sides = []
    for side, other in ((left, right), (right, left)):
        as_decimal = decimal_beside(side, other.kind)
        if as_decimal is None or op == "div":
            hint = "CAST them to double" if op == "div" else "CAST it to a decimal, or both to double"
            raise typer.refused(f"{op} of {left.kind} and {right.kind}", node, "decimals and longs", hint)
        sides.append(as_decimal)
    parts = [decimal_parts(side.kind) or (0, 0) for side in sides]
    precision, scale = (decimal_times if op == "mul" else decimal_sum)(*parts)
    if precision > MAX_DIGITS:
        raise typer.refused(
            f"{op} of {sides[0].kind} and {sides[1].kind} needs {precision} digits",
            node,
            f"at most {MAX_DIGITS}",
            "CAST one of them to a decimal of fewer digits",
        )
    return Call(op, tuple(sides), f"decimal({precision},{scale})")


def _tried(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        left, right = _pair(typer, node)
        return typer.arithmetic(op, exp.Add(this=left, expression=right))

    return handler


# ---- time


def _as_date(typer: Typer, value: Node, node: exp.Expr, what: str) -> Node:
    if value.kind == TIMESTAMP:
        return Call("date", (value,), DATE)
    if value.kind != DATE:
        raise typer.refused(f"{what} of {value.kind}", node, "a date or an instant, which is taken in UTC")
    return value


def _date_part(op: str) -> Handler:
    return lambda typer, node: Call(op, (_as_date(typer, typer.typed(_only(typer, node)), node, op.upper()),), LONG)


def _time_part(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        value = typer.typed(node.this)
        if value.kind != TIMESTAMP:
            raise typer.refused(f"{op.upper()} of {value.kind}", node, "an instant, which is taken in UTC")
        return Call(op, (value,), LONG)

    return handler


def _extract(typer: Typer, node: exp.Expr) -> Node:
    part = str(node.this.name).upper()
    handler = EXTRACTED.get(part)
    if handler is None:
        raise typer.refused(f"EXTRACT of {part}", node, "one of " + ", ".join(EXTRACTED))
    return handler(typer, exp.Hour(this=node.expression))


def _to_date(typer: Typer, node: exp.Expr) -> Node:
    return _as_date(typer, typer.typed(_only(typer, node)), node, "DATE")


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
    end, start = (_as_date(typer, typer.typed(side), node, "DATE_DIFF") for side in (node.this, node.expression))
    return Call("date_diff", (start, end), LONG)


# ---- the rest


def _same(typer: Typer, node: exp.Expr) -> Node:
    sides = typer.common((typer.typed(node.this), typer.typed(node.expression)), node)
    if element_type(sides[0].kind):
        raise typer.refused("arrays are not compared", node, "ARRAY_CONTAINS or ARRAY_SIZE")
    same = Call("same", sides if sides[0].kind != "null" else tuple(coerced(s, LONG) for s in sides), BOOLEAN)
    return same if isinstance(node, exp.NullSafeEQ) else Call("not", (same,), BOOLEAN)


def _bucket(typer: Typer, node: exp.Expr) -> Node:
    given, count = _pair(typer, node)
    value = coerced_null(typer.typed(given), STRING)
    if value.kind not in (STRING, LONG):
        raise typer.refused(f"BUCKET of {value.kind}", node, "text or a long")
    return Call("bucket", (coerced(value, STRING), _whole(typer, count, node, "BUCKET", 1, MAX_BUCKETS)), LONG)


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
    return Call("array_size", (_array(typer, _only(typer, node), node, "ARRAY_SIZE"),), LONG)


EXTRACTED: Mapping[str, Handler] = {
    **{part: _time_part(part.lower()) for part in ("HOUR", "MINUTE", "SECOND")},
    **{part: _date_part(part.lower()) for part in ("YEAR", "QUARTER", "MONTH", "DAY")},
}
BY_NODE: Mapping[type[exp.Expr], Handler] = {
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Right: _right,
    exp.Trim: _trim,
    exp.StartsWith: _two_texts("starts_with"),
    exp.EndsWith: _two_texts("ends_with"),
    exp.Contains: _two_texts("contains"),
    exp.Replace: _replace,
    exp.SplitPart: _split_part,
    exp.StrPosition: _position,
    exp.Like: _like,
    exp.Mod: _whole_division("mod"),
    exp.IntDiv: _whole_division("whole_div"),
    exp.Sign: _sign,
    exp.Floor: _floor("floor"),
    exp.Ceil: _floor("ceil"),
    exp.Round: _round,
    exp.Sqrt: _sqrt,
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
    "ASCII_LOWER": _one_text("ascii_lower"),
    "ASCII_UPPER": _one_text("ascii_upper"),
    "OCTET_LENGTH": _one_text("octet_length", LONG),
    "TRY_ADD": _tried("add"),
    "TRY_SUBTRACT": _tried("sub"),
    "TRY_MULTIPLY": _tried("mul"),
    "TRY_DIVIDE": _tried("div"),
    "BUCKET": _bucket,
    "TO_DATE": _to_date,
    "SIZE": _array_size,
    "CARDINALITY": _array_size,
}
