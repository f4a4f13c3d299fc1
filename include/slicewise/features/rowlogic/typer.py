"""A node of the parser's tree becomes row logic by its kind's one rule, or is refused with its
position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from slicewise.features.rowlogic.coercion import (
    BOTH_ENGINES,
    CASTS,
    NULL,
    cast_refused,
    cast_target,
    coerced,
    concrete,
    date_literal,
    decimal_literal,
)
from slicewise.features.rowlogic.decimals import decimal_arithmetic
from slicewise.features.rowlogic.expression import (
    Call,
    ColumnRef,
    Literal,
    Node,
    RowExpression,
    RowLogicRefused,
)
from slicewise.features.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    decimal_parts,
    element_type,
)
from slicewise.features.spelled import spelled
from slicewise.hints import close_to, either
from slicewise.names import listed, nearest

ALLOWED = (
    "columns, literals, operators, CASE, CAST and the functions that docs/reference/sql.md lists "
    "for row logic"
)
REWRITE = "rewrite it with what is on the list, or compute it before the topic"
OPERATORS = ("IF", "COALESCE", "NULLIF", "ABS", "LEAST", "GREATEST", "LENGTH", "CONCAT", "CAST")
"""Functions that the typer itself knows, by the names that messages give them."""
_REASONS: Mapping[type[exp.Expr], str] = {
    exp.Lower: (
        f"LOWER is not on the list: {BOTH_ENGINES} outside of ASCII; ASCII_LOWER leaves the rest "
        "alone"
    ),
    exp.Upper: (
        f"UPPER is not on the list: {BOTH_ENGINES} outside of ASCII; ASCII_UPPER leaves the rest "
        "alone"
    ),
    exp.Pow: f"POWER is not on the list: {BOTH_ENGINES} in the last bit; write the product",
    exp.Exp: f"EXP is not on the list: {BOTH_ENGINES} in the last bit",
    exp.Ln: f"LN is not on the list: {BOTH_ENGINES} in the last bit",
    exp.Log: f"LOG is not on the list: {BOTH_ENGINES} in the last bit",
    exp.RegexpLike: "a regular expression is not on the list: Spark and DuckDB read patterns differently",
    exp.Subquery: "a subquery is not row logic: it reads more than one row",
    exp.Select: "a query is not row logic: give the expression alone",
    exp.AggFunc: "an aggregate is not row logic: it belongs into a feature",
    exp.Window: "a window function is not row logic: windows belong into a feature",
    exp.CurrentTimestamp: "a clock is not row logic: replay would give other values",
    exp.Rand: "a random number is not row logic: replay would give other values",
}


Handler = Callable[["Typer", exp.Expr], Node]
"""Makes one kind of the parser's nodes row logic, or refuses it."""


@dataclass(frozen=True)
class Functions:
    """The functions beside operators: by the parser's node, or by name where the parser has none of
    its own.

    names: of all functions, as messages give them.
    """

    by_node: Mapping[type[exp.Expr], Handler]
    by_name: Mapping[str, Handler]
    names: Sequence[str]


@dataclass(frozen=True)
class Typer:
    """Turns the parser's tree into typed nodes. text, where: for messages; columns: of the source,
    with their types; defined: computed columns that the text may name."""

    text: str
    columns: Mapping[str, str]
    where: str
    defined: Mapping[str, RowExpression]
    functions: Functions

    def refused(
        self,
        what: str,
        node: exp.Expr | None,
        expected: str = ALLOWED,
        next_step: str = REWRITE,
    ) -> RowLogicRefused:
        """The error of whatever is not allowed, with the position of `node` in the text."""
        start = _start(node)
        at = f", character {start + 1}" if start is not None else ""
        error = RowLogicRefused(
            what, where=f"{self.where}{at} of {self.text!r}", expected=expected, next_step=next_step
        )
        error.start = start
        return error

    def typed(self, node: exp.Expr) -> Node:
        """The node as row logic. Raises DefinitionError where it is not on the list."""
        handler = _HANDLERS.get(type(node)) or self.functions.by_node.get(type(node))
        if isinstance(node, exp.Anonymous):
            handler = self.functions.by_name.get(node.name.upper())
        if handler is not None:
            return handler(self, node)
        for kind, reason in _REASONS.items():
            if isinstance(node, kind):
                raise self.refused(reason, node)
        name = spelled(self.text, node)
        what = f"{name} is not on the list of row logic"
        close = close_to(name, self.functions.names) if isinstance(node, exp.Func) else []
        raise (
            self.refused(what, node, next_step=f"did you mean {either(close)}? {REWRITE}")
            if close
            else self.refused(what, node)
        )

    # ---- leaves
    def column(self, node: exp.Column) -> Node:
        if node.args.get("table"):
            raise self.refused(f"{node.sql()!r}: a column is named alone, without a table", node)
        name = node.name
        if name in self.defined:
            return self.defined[name].tree
        if name not in self.columns:
            names = {*self.columns, *self.defined}
            then = nearest(name, names)
            if node.this.args.get("quoted"):
                text = name.replace("'", "''")
                then = (
                    f"a text stands in single quotes: '{text}'; in double quotes it is the name "
                    "of a column"
                )
            raise self.refused(f"unknown column {name!r}", node, "one of " + listed(names), then)
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
        try:
            value = sign * float(raw)
        except ValueError:
            raise self.refused(
                f"{raw} is no number", node, "digits, as in 1.5 or 1.5e3", "correct the number"
            ) from None
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
        if value.kind not in (LONG, DOUBLE) and not decimal_parts(value.kind):
            raise self.refused(f"{op.upper()} of {value.kind}", node, "a number")
        return Call(op, (value,), value.kind)

    def arithmetic(self, op: str, node: exp.Expr) -> Node:
        left, right = self.typed(node.this), self.typed(node.expression)
        if decimal_parts(left.kind) or decimal_parts(right.kind):
            return decimal_arithmetic(
                op,
                left,
                right,
                lambda what, expected, then: self.refused(what, node, expected, then),
            )
        for side in (left, right):
            if side.kind not in (LONG, DOUBLE):
                hint = "DATE_DIFF counts days" if side.kind == DATE else "CAST it to long or double"
                raise self.refused(f"arithmetic on {side.kind}", node, "numbers", hint)
        kind = DOUBLE if op == "div" or DOUBLE in (left.kind, right.kind) else LONG
        return Call(op, (coerced(left, kind), coerced(right, kind)), kind)

    def comparison(self, op: str, node: exp.Expr, left: Node, right: Node) -> Node:
        left, right = self.common((left, right), node)
        self.refuse_arrays((left,), node)
        return Call(op, (left, right), BOOLEAN)

    def refuse_arrays(self, values: Sequence[Node], node: exp.Expr) -> None:
        """Raises DefinitionError where one of them is an array: they have no order, and are not
        compared."""
        if any(element_type(value.kind) for value in values):
            raise self.refused("arrays are not compared", node, "ARRAY_CONTAINS or ARRAY_SIZE")

    def compare(self, op: str, node: exp.Expr) -> Node:
        return self.comparison(op, node, self.typed(node.this), self.typed(node.expression))

    def condition(self, node: exp.Expr) -> Node:
        value = self.typed(node)
        if value.kind == NULL:
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
        return Call("is_null", (concrete(value),), BOOLEAN)

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
        return self.choice(
            node, [condition], [self.typed(node.args["true"])], node.args.get("false")
        )

    def choice(
        self,
        node: exp.Expr,
        conditions: Sequence[Node],
        values: Sequence[Node],
        default: exp.Expr | None,
    ) -> Node:
        otherwise = self.typed(default) if default is not None else Literal(None, NULL)
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
            raise self.refused(
                f"{op.upper()} of booleans", node, "numbers, text, dates or timestamps"
            )
        if op != "coalesce":
            self.refuse_arrays(args, node)
        return Call(op, args, args[0].kind)

    def concat(self, node: exp.Expr) -> Node:
        parts = node.expressions if isinstance(node, exp.Concat) else (node.this, node.expression)
        args = tuple(self.typed(part) for part in parts)
        for arg in args:
            if arg.kind != STRING:
                raise self.refused(
                    f"CONCAT of {arg.kind}", node, "text", "CAST it to string where that is allowed"
                )
        return args[0] if len(args) == 1 else Call("concat", args, STRING)

    def length(self, node: exp.Length) -> Node:
        value = self.typed(node.this)
        if value.kind != STRING:
            raise self.refused(f"LENGTH of {value.kind}", node, "text: it counts characters")
        return Call("length", (value,), LONG)

    def cast(self, node: exp.Cast) -> Node:
        value = self.typed(node.this)
        target = cast_target(node.to.sql().replace(" ", ""))
        if target is None:
            raise self.refused(
                f"CAST to {node.to.sql()}",
                node,
                "CAST to long, double, string, date or decimal(p,s)",
            )
        if target == DATE and isinstance(value, Literal) and isinstance(value.value, str):
            literal = date_literal(value.value)
            if literal is None:
                raise self.refused(f"{value.value!r} is no date", node, "DATE 'yyyy-mm-dd'")
            return literal
        if value.kind == target:
            return value
        if value.kind == NULL:
            return Literal(None, target)
        reason = cast_refused(value.kind, target)
        if reason:
            raise self.refused(f"CAST of {value.kind} to {target}: {reason}", node, CASTS)
        if (value.kind, target) == (TIMESTAMP, DATE):
            return Call("date", (value,), DATE)
        return Call("cast", (value,), target)

    def common(self, nodes: Sequence[Node], at: exp.Expr) -> tuple[Node, ...]:
        """The same values with one type: equal types, or longs among doubles, or literals."""
        kinds = {node.kind for node in nodes if node.kind != NULL}
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
        return tuple(coerced(node, kind) for node in nodes)

    def as_decimal(self, node: Node, kind: str, at: exp.Expr) -> Node:
        if node.kind in (kind, NULL):
            return coerced(node, kind)
        literal = decimal_literal(node, kind)
        if literal is not None:
            return literal
        raise self.refused(
            f"{node.kind} beside {kind}",
            at,
            f"{kind}, or a number that it can hold",
            "compare decimals of one type only",
        )


def _start(node: exp.Expr | None) -> int | None:
    if node is None:
        return None
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts, default=None)


def _op(method: Callable[..., Node], op: str) -> Callable[[Typer, exp.Expr], Node]:
    return lambda typer, node: method(typer, op, node)


_HANDLERS: Mapping[type[exp.Expr], Callable[..., Node]] = {
    exp.Column: Typer.column,
    exp.Literal: Typer.literal,
    exp.Boolean: lambda _, node: Literal(bool(node.this), BOOLEAN),
    exp.Null: lambda *_: Literal(None, NULL),
    exp.Paren: lambda typer, node: typer.typed(node.this),
    exp.Neg: Typer.negative,
    exp.Add: _op(Typer.arithmetic, "add"),
    exp.Sub: _op(Typer.arithmetic, "sub"),
    exp.Mul: _op(Typer.arithmetic, "mul"),
    exp.Div: _op(Typer.arithmetic, "div"),
    exp.Abs: _op(Typer.arithmetic_one, "abs"),
    exp.EQ: _op(Typer.compare, "eq"),
    exp.NEQ: _op(Typer.compare, "ne"),
    exp.LT: _op(Typer.compare, "lt"),
    exp.LTE: _op(Typer.compare, "le"),
    exp.GT: _op(Typer.compare, "gt"),
    exp.GTE: _op(Typer.compare, "ge"),
    exp.And: _op(Typer.connective, "and"),
    exp.Or: _op(Typer.connective, "or"),
    exp.Not: lambda typer, node: Call("not", (typer.condition(node.this),), BOOLEAN),
    exp.Is: Typer.is_null,
    exp.In: Typer.contained,
    exp.Between: Typer.between,
    exp.Case: Typer.case,
    exp.If: Typer.if_,
    exp.Nullif: Typer.nullif,
    exp.Coalesce: _op(Typer.several, "coalesce"),
    exp.Least: _op(Typer.several, "least"),
    exp.Greatest: _op(Typer.several, "greatest"),
    exp.Concat: Typer.concat,
    exp.DPipe: Typer.concat,
    exp.Length: Typer.length,
    exp.Cast: Typer.cast,
    exp.TryCast: Typer.cast,
}
