"""Row logic is a frozen typed tree over the source's columns; both engines give it equal values.

The tree has a small core of operators, all coercions explicit, so that each engine compiles it
to text that cannot throw (`slicewise.features.rowlogic.functions.dialects`) and its canonical form
is what the storage fingerprint covers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from slicewise.errors import DefinitionError

ROW_LOGIC_VERSION = 1
"""Grows when the meaning of an operator changes; part of the storage fingerprint."""

ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg", "abs"})
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGIC = frozenset({"and", "or", "not", "is_null"})
CHOICES = frozenset({"case", "coalesce", "least", "greatest"})
TEXT = frozenset(
    {"length", "concat", "substring", "right", "trim", "ltrim", "rtrim", "replace", "split_part"}
)
TEXT |= {
    "starts_with",
    "ends_with",
    "contains",
    "position",
    "like",
    "ascii_lower",
    "ascii_upper",
    "octet_length",
}
NUMBERS = frozenset({"mod", "whole_div", "floor", "ceil", "sqrt"})
DATES = frozenset(
    {"date", "year", "quarter", "month", "day", "dayofyear", "weekofyear", "dayofweek", "date_diff"}
)
TIMES = frozenset({"hour", "minute", "second", "truncate"})
ARRAYS = frozenset({"array_contains", "array_size"})
OPERATORS = ARITHMETIC | COMPARISONS | LOGIC | CHOICES | TEXT | NUMBERS | DATES | TIMES | ARRAYS
OPERATORS |= {"cast", "same", "bucket"}


class RowLogicRefused(DefinitionError):
    """Row logic that is not on the list. start: the place in the text that was parsed, from 0;
    None: all of it."""

    start: int | None = None


@dataclass(frozen=True)
class Literal:
    """A constant. value: str, int, float, bool, Decimal, or None for null of its kind; of a date
    its text."""

    value: str | int | float | bool | Decimal | None
    kind: str


@dataclass(frozen=True)
class ColumnRef:
    """A column of the source."""

    name: str
    kind: str


@dataclass(frozen=True)
class Call:
    """An operator over arguments; `case` takes condition, value, condition, value, …, default."""

    op: str
    args: tuple[Node, ...]
    kind: str


Node = Literal | ColumnRef | Call


@dataclass(frozen=True)
class RowExpression:
    """A typed expression of row logic, as its author wrote it and as a tree.

    Timestamps are int64 microseconds in both engines. A double result that is NaN or infinite is
    a refused value: the row is left out of the view and counted.
    """

    text: str
    tree: Node

    @property
    def kind(self) -> str:
        """Type of the result: string, long, double, boolean, date, timestamp_us, decimal(p,s) or
        array<…>."""
        return self.tree.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the source's columns that it reads, sorted."""
        return tuple(sorted({node.name for node in walk(self.tree) if isinstance(node, ColumnRef)}))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reads them back."""
        return {"text": self.text, "tree": canonical(self.tree)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RowExpression:
        """Inverse of `to_json`; needs no parser."""
        return RowExpression(raw["text"], _node(raw["tree"]))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    if isinstance(node, Call):
        for argument in node.args:
            yield from walk(argument)


def canonical(node: Node) -> list[Any]:
    """The tree as nested lists of JSON values, equal only for equal trees.

    Doubles are written in hexadecimal, decimals as text, so that nothing is rounded.
    """
    if isinstance(node, ColumnRef):
        return ["column", node.name, node.kind]
    if isinstance(node, Call):
        return [node.op, node.kind, *(canonical(argument) for argument in node.args)]
    value = node.value
    if isinstance(value, float):
        value = value.hex()
    elif isinstance(value, Decimal):
        value = format(value, "f")
    return ["literal", value, node.kind]


def _node(raw: list[Any]) -> Node:
    op = raw[0]
    if op == "column":
        return ColumnRef(raw[1], raw[2])
    if op == "literal":
        value, kind = raw[1], raw[2]
        if value is not None and kind == "double":
            value = float.fromhex(value)
        elif value is not None and kind.startswith("decimal"):
            value = Decimal(value)
        return Literal(value, kind)
    if op not in OPERATORS:
        raise DefinitionError(
            f"{json.dumps(op)} is no operator of row logic",
            expected="a deployment written by this version",
            next_step="deploy again with the running version: slicewise apply",
        )
    return Call(op, tuple(_node(argument) for argument in raw[2:]), raw[1])
