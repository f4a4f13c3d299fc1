"""Arithmetic of decimals is exact: its result has as many digits as it can need, or the text is
refused."""

from __future__ import annotations

from collections.abc import Callable

from slicewise.errors import DefinitionError
from slicewise.features.rowlogic.coercion import decimal_beside, decimal_sum, decimal_times
from slicewise.features.rowlogic.expression import Call, Node
from slicewise.features.schema.types import decimal_parts

MAX_DIGITS = 38


Refuse = Callable[[str, str, str], DefinitionError]
"""Makes the error of an operation: what is refused, what is expected, and the next step."""


def decimal_arithmetic(op: str, left: Node, right: Node, refused: Refuse) -> Node:
    """The operation on two numbers, one of them a decimal. Raises what `refused` makes."""
    sides = []
    for side, other in ((left, right), (right, left)):
        as_decimal = decimal_beside(side, other.kind)
        if as_decimal is None or op == "div":
            hint = (
                "CAST them to double" if op == "div" else "CAST it to a decimal, or both to double"
            )
            raise refused(f"{op} of {left.kind} and {right.kind}", "decimals and longs", hint)
        sides.append(as_decimal)
    parts = [decimal_parts(side.kind) or (0, 0) for side in sides]
    precision, scale = (decimal_times if op == "mul" else decimal_sum)(*parts)
    if precision > MAX_DIGITS:
        raise refused(
            f"{op} of {sides[0].kind} and {sides[1].kind} needs {precision} digits",
            f"at most {MAX_DIGITS}",
            "CAST one of them to a decimal of fewer digits",
        )
    return Call(op, tuple(sides), f"decimal({precision},{scale})")
