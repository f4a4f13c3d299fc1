"""A computed double's tree tells whether it can be NaN or infinite: only then can it leave a row
out.

An operator has a bound of its result's size from those of its arguments, rounded as the engines
round. Rounding is monotone, so that no value lies above its bound. What is not known to be bounded
counts as infinite.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

from slicewise.features.rowlogic.expression import Call, ColumnRef, Literal, Node
from slicewise.features.schema.types import DOUBLE, LONG, decimal_parts

_MOST_LONG = 2.0**63
_MOST_DOUBLE = float.fromhex("0x1.fffffffffffffp+1023")


def may_be_infinite(tree: Node, allow_nan: Collection[str]) -> bool:
    """Tells whether some record that is good gives NaN or an infinity. allow_nan: columns that may
    hold one themselves."""
    return tree.kind == DOUBLE and math.isinf(_most(tree, allow_nan))


def _most(node: Node, allow_nan: Collection[str]) -> float:
    """No value of the node is larger in size; infinite where nothing bounds it."""
    if node.kind != DOUBLE:
        parts = decimal_parts(node.kind)
        return (
            _MOST_LONG
            if node.kind == LONG
            else 10.0 ** (parts[0] - parts[1])
            if parts
            else math.inf
        )
    if isinstance(node, ColumnRef):
        return math.inf if node.name in allow_nan else _MOST_DOUBLE
    if isinstance(node, Literal):
        return 0.0 if node.value is None else _size(node)
    if node.op == "cast":  # of text it reads no number that a double cannot hold
        return (
            _MOST_DOUBLE
            if math.isinf(_most(node.args[0], allow_nan))
            else _most(node.args[0], allow_nan)
        )
    if node.op == "div":
        least = _least(node.args[1])
        return _rounded(_most(node.args[0], allow_nan), "div", least) if least else math.inf
    if node.op == "case":
        return max(_most(argument, allow_nan) for argument in (*node.args[1:-1:2], node.args[-1]))
    bounds = [_most(argument, allow_nan) for argument in node.args]
    if node.op in ("neg", "abs", "coalesce", "least", "greatest"):
        return max(bounds)
    return _rounded(bounds[0], node.op, bounds[1]) if node.op in ("add", "sub", "mul") else math.inf


def _least(node: Node) -> float:
    """No value of a divisor is smaller in size, but for zero, by which a quotient is null; zero
    where that is open."""
    if isinstance(node, Literal) and node.value is not None:
        return _size(node)
    return (
        1.0 if isinstance(node, Call) and node.op == "cast" and node.args[0].kind == LONG else 0.0
    )


def _rounded(a: float, op: str, b: float) -> float:
    if math.isinf(a) or math.isinf(b):
        return math.inf
    exact = Fraction(a) + Fraction(b) if op in ("add", "sub") else Fraction(a) * Fraction(b)
    if op == "div":
        exact = Fraction(a) / Fraction(b)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf


def _size(literal: Literal) -> float:
    assert isinstance(literal.value, int | float)
    return abs(float(literal.value))
