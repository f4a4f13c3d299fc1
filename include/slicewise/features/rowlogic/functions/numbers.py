"""Functions of numbers are exact or correctly rounded in every engine; what a type cannot hold is
null."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from slicewise.features.rowlogic.arguments import of_kind_if_null, two_arguments, whole_number
from slicewise.features.rowlogic.coercion import coerced
from slicewise.features.rowlogic.decimals import MAX_DIGITS
from slicewise.features.rowlogic.expression import Call, Literal, Node
from slicewise.features.rowlogic.typer import Handler, Typer
from slicewise.features.schema.types import BOOLEAN, DOUBLE, LONG, decimal_parts


def whole_division(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        sides = [of_kind_if_null(typer.typed(side), LONG) for side in (node.this, node.expression)]
        for side in sides:
            if side.kind != LONG:
                raise typer.refused(f"{'%' if op == 'mod' else '//'} of {side.kind}", node, "longs")
        return Call(op, tuple(sides), LONG)

    return handler


def sign(typer: Typer, node: exp.Expr) -> Node:
    value = of_kind_if_null(typer.typed(node.this), LONG)
    parts = decimal_parts(value.kind)
    if value.kind not in (LONG, DOUBLE) and not parts:
        raise typer.refused(f"SIGN of {value.kind}", node, "a number")
    zero: int | float | Decimal = (
        Decimal(0).scaleb(-parts[1]) if parts else 0.0 if value.kind == DOUBLE else 0
    )
    against = Literal(zero, value.kind)
    tests = [
        part
        for op, sign in (("gt", 1), ("lt", -1), ("eq", 0))
        for part in (Call(op, (value, against), BOOLEAN), Literal(sign, LONG))
    ]
    return Call("case", (*tests, Literal(None, LONG)), LONG)


def whole_part(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        value = of_kind_if_null(typer.typed(node.this), LONG)
        parts = decimal_parts(value.kind)
        if value.kind == LONG or (parts and parts[1] == 0):
            return value
        if parts:
            return Call(op, (value,), f"decimal({parts[0] - parts[1] + 1},0)")
        if value.kind != DOUBLE:
            raise typer.refused(f"{op.upper()} of {value.kind}", node, "a number")
        return Call(op, (value,), LONG)

    return handler


def rounded(typer: Typer, node: exp.Expr) -> Node:
    value = of_kind_if_null(typer.typed(node.this), LONG)
    given = node.args.get("decimals")
    parts = decimal_parts(value.kind)
    digits = (
        whole_number(typer, given, node, "ROUND", 0, MAX_DIGITS).value if given is not None else 0
    )
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
    return Call(
        "cast", (value,), f"decimal({min(MAX_DIGITS, parts[0] - parts[1] + digits + 1)},{digits})"
    )


def square_root(typer: Typer, node: exp.Expr) -> Node:
    value = of_kind_if_null(typer.typed(node.this), DOUBLE)
    if value.kind not in (LONG, DOUBLE):
        raise typer.refused(f"SQRT of {value.kind}", node, "a long or a double")
    return Call("sqrt", (coerced(value, DOUBLE),), DOUBLE)


def try_arithmetic(op: str) -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        left, right = two_arguments(typer, node)
        return typer.arithmetic(op, exp.Add(this=left, expression=right))

    return handler
