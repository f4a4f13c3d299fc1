"""A value takes another type only where both engines give the same value of it."""

from __future__ import annotations

from decimal import Decimal

from slicewise.features.expression import Call, Literal, Node
from slicewise.features.types import BOOLEAN, DOUBLE, LONG, STRING, TIMESTAMP, decimal_parts

NULL = "null"
"""The type of a bare NULL."""
BOTH_ENGINES = "Spark and DuckDB answer differently"
CAST_TARGETS = {
    **dict.fromkeys(("BIGINT", "LONG", "INT64"), LONG),
    "DOUBLE": DOUBLE,
    **dict.fromkeys(("TEXT", "STRING", "VARCHAR"), STRING),
}
CASTS = (
    "long to double or string, double to long, string to long or double, boolean to long or "
    "double, timestamp to long, decimals of at most 15 digits to double"
)


def concrete(node: Node) -> Node:
    """A bare NULL as a null long."""
    return Literal(None, LONG) if node.kind == NULL else node


def coerced(node: Node, kind: str) -> Node:
    """The node as a value of this type; the caller knows that it may be one."""
    if node.kind == kind:
        return node
    if node.kind == NULL:
        return Literal(None, kind)
    if isinstance(node, Literal) and isinstance(node.value, int) and kind == DOUBLE:
        return Literal(float(node.value), DOUBLE)
    return Call("cast", (node,), kind)


def cast_refused(source: str, target: str) -> str | None:
    """Why a cast is refused; None where it is allowed."""
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
        return f"{BOTH_ENGINES} in the digits"
    parts = decimal_parts(source)
    if parts and target == DOUBLE:
        return None if parts[0] <= 15 else "beyond 15 digits the engines round differently"
    return "it is not on the list"


def decimal_literal(node: Node, kind: str) -> Node | None:
    """A number written in the text as a decimal of this type; None where it does not fit exactly."""
    parts = decimal_parts(kind)
    if not isinstance(node, Literal) or not parts:
        return None
    value = Decimal(repr(node.value))
    precision, scale = parts
    unscaled = value.scaleb(scale)
    if unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision:
        return Literal(value.quantize(Decimal(1).scaleb(-scale)), kind)
    return None
