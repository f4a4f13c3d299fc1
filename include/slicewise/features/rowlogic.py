"""Only what both engines answer alike becomes row logic; all else is refused with its position.

Text is Spark SQL's expression syntax, with these rules where engines differ: an identifier's case
counts; a quote inside text is written '' and a backslash is a backslash; a number with a point or
an exponent is a double; `/` of integers is a double; integer overflow and division by zero are
null; CONCAT of a null is null; LEAST and GREATEST skip nulls; NaN equals NaN and is greater than
every number.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from slicewise.errors import DefinitionError
from slicewise.features.expression import Call, ColumnRef, Literal, Node, RowExpression
from slicewise.features.types import BOOLEAN, DOUBLE, LONG, STRING, TIMESTAMP, decimal_parts

MAX_TEXT = 10_000
MAX_SIZE = 20_000
ALLOWED = (
    "literals, columns, + - * /, = <> < <= > >=, AND OR NOT, IS [NOT] NULL, [NOT] IN, BETWEEN, "
    "CASE, IF, COALESCE, NULLIF, ABS, LEAST, GREATEST, LENGTH, CONCAT, ||, CAST"
)
_NULL = "null"
_BOTH_ENGINES = "Spark and DuckDB answer differently"
_REASONS: Mapping[type[exp.Expr], str] = {
    exp.Lower: f"LOWER is not on the list: {_BOTH_ENGINES} outside of ASCII",
    exp.Upper: f"UPPER is not on the list: {_BOTH_ENGINES} outside of ASCII",
    exp.Mod: f"% is not on the list: {_BOTH_ENGINES} on zero and on doubles",
    exp.Subquery: "a subquery is not row logic: it reads more than one row",
    exp.Select: "a query is not row logic: give the expression alone",
    exp.Like: f"LIKE is not on the list: {_BOTH_ENGINES} on escapes",
    exp.AggFunc: "an aggregate is not row logic: it belongs into a feature",
    exp.Window: "a window function is not row logic: windows belong into a feature",
    exp.CurrentTimestamp: "a clock is not row logic: replay would give other values",
    exp.Rand: "a random number is not row logic: replay would give other values",
}


def parse_expression(
    text: str,
    types: Mapping[str, str],
    *,
    where: str,
    defined: Mapping[str, RowExpression] | None = None,
    boolean: bool = False,
) -> RowExpression:
    """Typed row logic from text.

    types: the source's columns and their types. where: the place of the definition, for messages.
    defined: computed columns that the text may name; they are put in its place. boolean: the
    result must be one. Raises DefinitionError with the position for whatever is not allowed.
    """
    typer = _Typer(text, types, where, defined or {})
    try:
        node = typer.typed(_parsed(text, where))
    except RecursionError:
        raise typer.refused("the expression is nested too deeply", None) from None
    if node.kind == _NULL:
        raise typer.refused("the expression is always null", None)
    if _size(node, {}) > MAX_SIZE:
        raise typer.refused("the expression is too large", None, f"at most {MAX_SIZE} operators")
    if boolean and node.kind != BOOLEAN:
        raise typer.refused(f"a condition is boolean, this is {node.kind}", None)
    return RowExpression(text, node)


def _parsed(text: str, where: str) -> exp.Expr:
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
        raise DefinitionError(
            "row logic is an expression as text",
            where=where,
            expected=f'1 to {MAX_TEXT} characters, such as "seconds >= 30"',
        )
    try:
        statements = sqlglot.parse(text, dialect="duckdb")
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        column = details[0].get("col")
        raise DefinitionError(
            f"{text!r} is no expression: {details[0].get('description') or error}",
            where=where + (f", character {column}" if column else ""),
            expected=ALLOWED,
            next_step="correct the text",
        ) from error
    if len(statements) != 1 or statements[0] is None:
        raise DefinitionError(f"{text!r} is not one expression", where=where, expected="one expression, no `;`")
    return statements[0]


@dataclass(frozen=True)
class _Typer:
    text: str
    columns: Mapping[str, str]
    where: str
    defined: Mapping[str, RowExpression]

    def refused(
        self,
        what: str,
        node: exp.Expr | None,
        expected: str = ALLOWED,
        next_step: str = "rewrite it with what is on the list, or compute it before the topic",
    ) -> DefinitionError:
        start = _start(node)
        at = f", character {start + 1}" if start is not None else ""
        return DefinitionError(what, where=f"{self.where}{at} of {self.text!r}", expected=expected, next_step=next_step)

    def typed(self, node: exp.Expr) -> Node:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        for kind, reason in _REASONS.items():
            if isinstance(node, kind):
                raise self.refused(reason, node)
        name = node.name if isinstance(node, exp.Anonymous) else node.key.upper()
        raise self.refused(f"{name} is not on the list of row logic", node)

    # ---- leaves
    def column(self, node: exp.Column) -> Node:
        if node.args.get("table"):
            raise self.refused(f"{node.sql()!r}: a column is named alone, without a table", node)
        name = node.name
        if name in self.defined:
            return self.defined[name].tree
        if name not in self.columns:
            known = sorted({*self.columns, *self.defined})
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "name one of these"
            expected = "one of " + ", ".join(known)
            raise self.refused(f"unknown column {name!r}", node, expected, hint)
        return ColumnRef(name, self.columns[name])

    def literal(self, node: exp.Literal, sign: int = 1) -> Node:
        raw = str(node.this)
        if node.is_string:
            if any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in raw):
                raise self.refused("text with control characters or lone surrogates", node)
            return Literal(raw, STRING)
        if raw.isdigit():
            if not -(2**63) <= sign * int(raw) < 2**63:
                raise self.refused(f"{raw} does not fit 64 bits", node, "an int64 or a double")
            return Literal(sign * int(raw), LONG)
        value = sign * float(raw)
        if value in (float("inf"), float("-inf")):
            raise self.refused(f"{raw} is beyond the largest double", node)
        return Literal(value, DOUBLE)

    # ---- operators
    def negative(self, node: exp.Neg) -> Node:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self.literal(node.this, -1)
        return self.arithmetic_one("neg", node)

    def arithmetic_one(self, op: str, node: exp.Expr) -> Node:
        value = self.typed(node.this)
        if value.kind not in (LONG, DOUBLE):
            raise self.refused(f"{op.upper()} of {value.kind}", node, "a long or a double")
        return Call(op, (value,), value.kind)

    def arithmetic(self, op: str, node: exp.Expr) -> Node:
        left, right = self.typed(node.this), self.typed(node.expression)
        for side in (left, right):
            if side.kind not in (LONG, DOUBLE):
                hint = (
                    "CAST it to double, or aggregate the decimal itself"
                    if decimal_parts(side.kind)
                    else "CAST it to long or double"
                )
                raise self.refused(f"arithmetic on {side.kind}", node, "longs and doubles", hint)
        kind = DOUBLE if op == "div" or DOUBLE in (left.kind, right.kind) else LONG
        return Call(op, (_coerced(left, kind), _coerced(right, kind)), kind)

    def comparison(self, op: str, node: exp.Expr, left: Node, right: Node) -> Node:
        left, right = self.common((left, right), node)
        return Call(op, (left, right), BOOLEAN)

    def compare(self, op: str, node: exp.Expr) -> Node:
        return self.comparison(op, node, self.typed(node.this), self.typed(node.expression))

    def condition(self, node: exp.Expr) -> Node:
        value = self.typed(node)
        if value.kind == _NULL:
            return Literal(None, BOOLEAN)
        if value.kind != BOOLEAN:
            raise self.refused(f"a condition is boolean, this is {value.kind}", node, "a boolean")
        return value

    def connective(self, op: str, node: exp.Expr) -> Node:
        flat: list[Node] = []
        for side in (self.condition(node.this), self.condition(node.expression)):
            flat.extend(side.args if isinstance(side, Call) and side.op == op else (side,))
        return Call(op, tuple(flat), BOOLEAN)

    def is_null(self, node: exp.Is) -> Node:
        if not isinstance(node.expression, exp.Null):
            raise self.refused("IS is for NULL only", node, "IS NULL or IS NOT NULL")
        value = self.typed(node.this)
        return Call("is_null", (_concrete(value),), BOOLEAN)

    def contained(self, node: exp.In) -> Node:
        if not node.expressions:
            raise self.refused("IN takes a list", node, "IN (1, 2, 3)")
        value = self.typed(node.this)
        tests = [self.comparison("eq", node, value, self.typed(e)) for e in node.expressions]
        return tests[0] if len(tests) == 1 else Call("or", tuple(tests), BOOLEAN)

    def between(self, node: exp.Between) -> Node:
        value = self.typed(node.this)
        low = self.comparison("ge", node, value, self.typed(node.args["low"]))
        high = self.comparison("le", node, value, self.typed(node.args["high"]))
        return Call("and", (low, high), BOOLEAN)

    def case(self, node: exp.Case) -> Node:
        subject = self.typed(node.this) if node.this is not None else None
        conditions: list[Node] = []
        values: list[Node] = []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.condition(branch.this))
            else:
                conditions.append(self.comparison("eq", branch, subject, self.typed(branch.this)))
            values.append(self.typed(branch.args["true"]))
        return self.choice(node, conditions, values, node.args.get("default"))

    def if_(self, node: exp.If) -> Node:
        condition = self.condition(node.this)
        return self.choice(node, [condition], [self.typed(node.args["true"])], node.args.get("false"))

    def choice(
        self,
        node: exp.Expr,
        conditions: Sequence[Node],
        values: Sequence[Node],
        default: exp.Expr | None,
    ) -> Node:
        otherwise = self.typed(default) if default is not None else Literal(None, _NULL)
        *values, otherwise = self.common((*values, otherwise), node)
        pairs = [part for pair in zip(conditions, values, strict=True) for part in pair]
        return Call("case", (*pairs, otherwise), otherwise.kind)

    def nullif(self, node: exp.Nullif) -> Node:
        value = self.typed(node.this)
        equal = self.comparison("eq", node, value, self.typed(node.expression))
        return Call("case", (equal, Literal(None, value.kind), value), value.kind)

    def several(self, op: str, node: exp.Expr) -> Node:
        args = self.common([self.typed(e) for e in (node.this, *node.expressions)], node)
        if len(args) == 1 and op == "coalesce":
            return args[0]
        if len(args) < 2:
            raise self.refused(f"{op.upper()} takes at least two values", node)
        if op != "coalesce" and args[0].kind == BOOLEAN:
            raise self.refused(f"{op.upper()} of booleans", node, "numbers, text or timestamps")
        return Call(op, args, args[0].kind)

    def concat(self, node: exp.Expr) -> Node:
        parts = node.expressions if isinstance(node, exp.Concat) else (node.this, node.expression)
        args = tuple(self.typed(part) for part in parts)
        for arg in args:
            if arg.kind != STRING:
                raise self.refused(f"CONCAT of {arg.kind}", node, "text", "CAST it to string where that is allowed")
        return args[0] if len(args) == 1 else Call("concat", args, STRING)

    def length(self, node: exp.Length) -> Node:
        value = self.typed(node.this)
        if value.kind != STRING:
            raise self.refused(f"LENGTH of {value.kind}", node, "text: it counts characters")
        return Call("length", (value,), LONG)

    def cast(self, node: exp.Cast) -> Node:
        value = self.typed(node.this)
        target = _TARGETS.get(node.to.sql().upper())
        if target is None:
            raise self.refused(f"CAST to {node.to.sql()}", node, "CAST to long, double or string")
        if value.kind == target:
            return value
        if value.kind == _NULL:
            return Literal(None, target)
        reason = _cast_refused(value.kind, target)
        if reason:
            raise self.refused(f"CAST of {value.kind} to {target}: {reason}", node, _CASTS)
        return Call("cast", (value,), target)

    def common(self, nodes: Sequence[Node], at: exp.Expr) -> tuple[Node, ...]:
        """The same values with one type: equal types, or longs among doubles, or literals."""
        kinds = {node.kind for node in nodes if node.kind != _NULL}
        if not kinds:
            return tuple(nodes)
        decimals = {kind for kind in kinds if decimal_parts(kind)}
        if len(kinds) == 1:
            kind = kinds.pop()
        elif kinds == {LONG, DOUBLE}:
            kind = DOUBLE
        elif len(decimals) == 1 and kinds <= {LONG, DOUBLE, *decimals}:
            kind = decimals.pop()
            return tuple(self.as_decimal(node, kind, at) for node in nodes)
        else:
            raise self.refused(
                f"values of different types: {', '.join(sorted(kinds))}",
                at,
                "values of one type, or longs and doubles",
                "CAST one of them",
            )
        return tuple(_coerced(node, kind) for node in nodes)

    def as_decimal(self, node: Node, kind: str, at: exp.Expr) -> Node:
        if node.kind in (kind, _NULL):
            return _coerced(node, kind)
        parts = decimal_parts(kind)
        if isinstance(node, Literal) and parts:
            value = Decimal(repr(node.value))
            precision, scale = parts
            unscaled = value.scaleb(scale)
            if unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision:
                return Literal(value.quantize(Decimal(1).scaleb(-scale)), kind)
        raise self.refused(
            f"{node.kind} beside {kind}",
            at,
            f"{kind}, or a number that it can hold",
            "compare decimals of one type only",
        )


def _size(node: Node, known: dict[int, int]) -> int:
    # How often the compiled text repeats its parts: NULLIF and guarded casts repeat theirs.
    if not isinstance(node, Call):
        return 1
    if id(node) not in known:
        times = 3 if node.op == "cast" else 1
        known[id(node)] = 1 + times * sum(_size(argument, known) for argument in node.args)
    return known[id(node)]


def _concrete(node: Node) -> Node:
    return Literal(None, LONG) if node.kind == _NULL else node


def _coerced(node: Node, kind: str) -> Node:
    if node.kind == kind:
        return node
    if node.kind == _NULL:
        return Literal(None, kind)
    if isinstance(node, Literal) and isinstance(node.value, int) and kind == DOUBLE:
        return Literal(float(node.value), DOUBLE)
    return Call("cast", (node,), kind)


_TARGETS = {
    **dict.fromkeys(("BIGINT", "LONG", "INT64"), LONG),
    "DOUBLE": DOUBLE,
    **dict.fromkeys(("TEXT", "STRING", "VARCHAR"), STRING),
}
_CASTS = (
    "long to double or string, double to long, string to long or double, boolean to long or "
    "double, timestamp to long, decimals of at most 15 digits to double"
)


def _cast_refused(source: str, target: str) -> str | None:
    allowed = {
        (LONG, DOUBLE),
        (LONG, STRING),
        (DOUBLE, LONG),
        (STRING, LONG),
        (STRING, DOUBLE),
        (BOOLEAN, LONG),
        (BOOLEAN, DOUBLE),
        (TIMESTAMP, LONG),
    }
    if (source, target) in allowed:
        return None
    if source == DOUBLE and target == STRING:
        return f"{_BOTH_ENGINES} in the digits"
    parts = decimal_parts(source)
    if parts and target == DOUBLE:
        return None if parts[0] <= 15 else "beyond 15 digits the engines round differently"
    return "it is not on the list"


def _start(node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts, default=None)


def _op(method: Callable[..., Node], op: str) -> Callable[[_Typer, exp.Expr], Node]:
    return lambda typer, node: method(typer, op, node)


_HANDLERS: Mapping[type[exp.Expr], Callable[..., Node]] = {
    exp.Column: _Typer.column,
    exp.Literal: _Typer.literal,
    exp.Boolean: lambda _, node: Literal(bool(node.this), BOOLEAN),
    exp.Null: lambda *_: Literal(None, _NULL),
    exp.Paren: lambda typer, node: typer.typed(node.this),
    exp.Neg: _Typer.negative,
    exp.Add: _op(_Typer.arithmetic, "add"),
    exp.Sub: _op(_Typer.arithmetic, "sub"),
    exp.Mul: _op(_Typer.arithmetic, "mul"),
    exp.Div: _op(_Typer.arithmetic, "div"),
    exp.Abs: _op(_Typer.arithmetic_one, "abs"),
    exp.EQ: _op(_Typer.compare, "eq"),
    exp.NEQ: _op(_Typer.compare, "ne"),
    exp.LT: _op(_Typer.compare, "lt"),
    exp.LTE: _op(_Typer.compare, "le"),
    exp.GT: _op(_Typer.compare, "gt"),
    exp.GTE: _op(_Typer.compare, "ge"),
    exp.And: _op(_Typer.connective, "and"),
    exp.Or: _op(_Typer.connective, "or"),
    exp.Not: lambda typer, node: Call("not", (typer.condition(node.this),), BOOLEAN),
    exp.Is: _Typer.is_null,
    exp.In: _Typer.contained,
    exp.Between: _Typer.between,
    exp.Case: _Typer.case,
    exp.If: _Typer.if_,
    exp.Nullif: _Typer.nullif,
    exp.Coalesce: _op(_Typer.several, "coalesce"),
    exp.Least: _op(_Typer.several, "least"),
    exp.Greatest: _op(_Typer.several, "greatest"),
    exp.Concat: _Typer.concat,
    exp.DPipe: _Typer.concat,
    exp.Length: _Typer.length,
    exp.Cast: _Typer.cast,
    exp.TryCast: _Typer.cast,
}
