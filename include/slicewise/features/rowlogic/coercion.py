"""A value takes another type only where both engines give the same value of it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from slicewise.errors import DefinitionError
from slicewise.features.rowlogic.expression import Call, Literal, Node
from slicewise.features.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    column_type,
    decimal_parts,
)

NULL = "null"
"""The type of a bare NULL."""
BOTH_ENGINES = "Spark and DuckDB answer differently"
CAST_TARGETS = {
    **dict.fromkeys(("BIGINT", "LONG", "INT64"), LONG),
    "DOUBLE": DOUBLE,
    **dict.fromkeys(("TEXT", "STRING", "VARCHAR"), STRING),
    "DATE": DATE,
}
CASTS = (
    "long to double, string or decimal, double to long, string to long, double or date, boolean "
    "to long or "
    "double, timestamp to long or date, date to string, decimals to decimals, of at most 15 "
    "digits to double, "
    "of at most 18 without fraction to long"
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
    """Tells why a cast is refused; None where it is allowed."""
    allowed = {
        (LONG, DOUBLE),
        (LONG, STRING),
        (DOUBLE, LONG),
        (STRING, LONG),
        (STRING, DOUBLE),
        (BOOLEAN, LONG),
        (BOOLEAN, DOUBLE),
        (TIMESTAMP, LONG),
        (TIMESTAMP, DATE),
        (STRING, DATE),
        (DATE, STRING),
    }
    if (source, target) in allowed:
        return None
    if source == DOUBLE and target == STRING:
        return f"{BOTH_ENGINES} in the digits"
    parts = decimal_parts(source)
    if decimal_parts(target) and (parts or source == LONG):
        return None
    if parts and target == LONG:
        return (
            None
            if parts[0] <= 18 and not parts[1]
            else "FLOOR or CEIL it first, to at most 18 digits"
        )
    if parts and target == DOUBLE:
        return None if parts[0] <= 15 else "beyond 15 digits the engines round differently"
    return "it is not on the list"


def decimal_literal(node: Node, kind: str) -> Node | None:
    """A number written in the text as a decimal of this type; None where it does not fit
    exactly."""
    parts = decimal_parts(kind)
    if not isinstance(node, Literal) or not parts:
        return None
    value = Decimal(repr(node.value))
    precision, scale = parts
    unscaled = value.scaleb(scale)
    if unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision:
        return Literal(value.quantize(Decimal(1).scaleb(-scale)), kind)
    return None


def cast_target(text: str) -> str | None:
    """The type that a CAST names; None where it is on no list."""
    if text.upper() in CAST_TARGETS:
        return CAST_TARGETS[text.upper()]
    if not text.upper().startswith("DECIMAL("):
        return None
    try:
        return column_type(text)
    except DefinitionError:
        return None


def date_literal(text: str) -> Literal | None:
    """A date written in the text; None where it is none of the years 1 to 9999."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return Literal(text, DATE) if day.isoformat() == text else None


def decimal_beside(node: Node, other: str) -> Node | None:
    """A number as a decimal, to be added to or multiplied with one; None for a double that is no
    literal."""
    if decimal_parts(node.kind):
        return node
    if node.kind == NULL:
        return Literal(None, other)
    if isinstance(node, Literal) and node.kind in (LONG, DOUBLE) and node.value is not None:
        exact = Decimal(repr(node.value))
        exponent = exact.as_tuple().exponent
        scale = max(0, -exponent) if isinstance(exponent, int) else 0
        digits = max(len(str(abs(int(exact.scaleb(scale))))), scale, 1)
        return decimal_literal(node, f"decimal({digits},{scale})") if digits <= 38 else None
    return Call("cast", (node,), "decimal(19,0)") if node.kind == LONG else None


def decimal_sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Precision and scale that hold every sum and difference."""
    scale = max(one[1], other[1])
    return max(one[0] - one[1], other[0] - other[1]) + scale + 1, scale


def decimal_times(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Precision and scale that hold every product."""
    return one[0] + other[0] + 1, one[1] + other[1]
