"""Spark and DuckDB text of one tree give equal values on every row, and never throw.

Where the engines' own operators differ (overflow, division by zero, casts), both texts spell the
same guarded form; `tests/support/inputs/rowlogic_vectors.py` holds the vectors that prove it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from slicewise.features.rowlogic.expression import Call, ColumnRef, Literal, Node
from slicewise.features.rowlogic.functions.texts import TEXTS, rounded
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

INTEGER_TEXT = "-?[0-9]{1,19}"
DATE_TEXT = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
NUMBER_TEXT = "-?[0-9]{1,30}([.][0-9]{1,30})?([eE][+-]?[0-9]{1,2})?"
"""Texts that casts read; bounded, so that no double overflows or underflows."""

MAX_DOUBLE = "1.7976931348623157E308"
_BELOW_2_63 = "9.2233720368547748E18"  # the largest double that a long can hold, exactly
_AT_MINUS_2_63 = "-9.2233720368547758E18"

_INT64_DIGITS = 18

_COMPARE = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}

REPEATED = {"sqrt": 2, "whole_div": 3, "array_contains": 2, "floor": 3, "ceil": 3, "truncate": 2}
"""Number of times that the longer text of an operator repeats an argument."""

Column = Callable[[str], str]


def to_spark(node: Node, column: Column | None = None) -> str:
    """Spark SQL text of a tree. column: how a column's name is written."""
    return _Spark(column or (lambda name: f"`{name}`")).text(node)


def to_duckdb(node: Node, column: Column | None = None) -> str:
    """DuckDB text of a tree. column: how a column's name is written."""
    return _DuckDB(column or (lambda name: f'"{name}"')).text(node)


class _Dialect(ABC):
    """Text that both engines write alike; each engine fills in literals, types, arithmetic,
    casts."""

    spark: ClassVar[bool]
    types: ClassVar[Mapping[str, str]]
    wide: ClassVar[str]  # a type in which int64s are added, multiplied and negated exactly

    def __init__(self, column: Column) -> None:
        self.column = column

    def text(self, node: Node) -> str:
        if isinstance(node, ColumnRef):
            return self.column(node.name)
        if isinstance(node, Literal):
            return self.literal(node)
        return self.call(node, [self.text(argument) for argument in node.args])

    def call(self, node: Call, args: list[str]) -> str:
        op, kind = node.op, node.kind
        if op in _COMPARE:
            return f"({args[0]} {_COMPARE[op]} {args[1]})"
        if op in ("and", "or"):
            return "(" + f" {op.upper()} ".join(args) + ")"
        if op == "not":
            return f"(NOT {args[0]})"
        if op == "is_null":
            return f"({args[0]} IS NULL)"
        if op == "case":
            whens = zip(args[0:-1:2], args[1:-1:2], strict=True)
            return f"CASE {' '.join(f'WHEN {c} THEN {v}' for c, v in whens)} ELSE {args[-1]} END"
        if op in ("coalesce", "least", "greatest"):
            return f"{op}({', '.join(args)})"
        if op == "concat":
            return "(" + " || ".join(args) + ")"
        if op == "length":
            return self.cast_to(LONG, f"length({args[0]})")
        if op == "cast":
            return self.cast(node.args[0].kind, kind, args[0])
        if op in ("floor", "ceil"):
            decimal = self.type(kind) if decimal_parts(kind) else None
            return rounded(op, decimal, self.spark).format(*args)
        if op in TEXTS:
            return TEXTS[op][0 if self.spark else 1].format(*args)
        if decimal_parts(kind):
            return self.decimal(
                op, kind, [self.widened(kind, *pair) for pair in zip(node.args, args, strict=True)]
            )
        if kind == DOUBLE:
            return self.double(op, args)
        return self.long(op, args)

    def double(self, op: str, args: list[str]) -> str:
        if op == "neg":
            return f"(-{args[0]})"
        if op == "abs":
            return f"abs({args[0]})"
        if op == "div":
            return self.divide(*args)
        return f"({args[0]} {_ARITHMETIC[op]} {args[1]})"

    def decimal(self, op: str, kind: str, args: list[str]) -> str:
        """Arithmetic whose type holds every result, whatever the engine would have it be."""
        if op in ("neg", "abs"):
            return self.cast_to(kind, f"(-{args[0]})" if op == "neg" else f"abs({args[0]})")
        return self.cast_to(kind, f"({args[0]} {_ARITHMETIC[op]} {args[1]})")

    def long(self, op: str, args: list[str]) -> str:
        if op == "neg":
            return self.exact("sub", "0", args[0])
        if op == "abs":
            return self.try_cast(LONG, f"abs({self.cast_to(self.wide, args[0])})")
        return self.exact(op, *args)

    def cast(self, source: str, target: str, value: str) -> str:
        if source == TIMESTAMP and target == LONG:
            return value  # timestamps are microseconds already
        if source == BOOLEAN:
            one, zero = self.number(1, target), self.number(0, target)
            return f"CASE WHEN {value} THEN {one} WHEN NOT {value} THEN {zero} END"
        if source == DOUBLE and target == LONG:
            low, high = self.raw_double(_AT_MINUS_2_63), self.raw_double(_BELOW_2_63)
            whole = self.truncated(value)
            return f"CASE WHEN {value} >= {low} AND {value} <= {high} THEN {whole} END"
        if target == DATE:
            day = self.try_cast(DATE, value)
            year_1 = "DATE '0001-01-01'"
            return (
                f"CASE WHEN {self.matches(value, DATE_TEXT)} AND {day} >= {year_1} THEN {day} END"
            )
        if decimal_parts(target) or (decimal_parts(source) and target == LONG):
            return self.try_cast(target, value)
        if source == STRING:
            pattern = INTEGER_TEXT if target == LONG else NUMBER_TEXT
            return (
                f"CASE WHEN {self.matches(value, pattern)} THEN {self.try_cast(target, value)} END"
            )
        return self.cast_to(target, value)

    def number(self, value: int, kind: str) -> str:
        return self.raw_double(repr(float(value))) if kind == DOUBLE else self.raw_long(int(value))

    def literal(self, node: Literal) -> str:
        value, kind = node.value, node.kind
        if value is None:
            return f"CAST(NULL AS {self.type(kind)})"
        if kind == BOOLEAN:
            return "TRUE" if value else "FALSE"
        if kind == STRING:
            return self.quoted(str(value))
        if kind == DATE:
            return f"DATE '{value}'"
        if kind == DOUBLE:
            return self.raw_double(repr(value))
        if decimal_parts(kind):
            return f"CAST('{value:f}' AS {self.type(kind)})"
        return self.raw_long(int(value))

    def type(self, kind: str) -> str:
        element = element_type(kind)
        return self.array(self.type(element)) if element is not None else self.types.get(kind, kind)

    def cast_to(self, kind: str, value: str) -> str:
        return f"CAST({value} AS {self.type(kind)})"

    def try_cast(self, kind: str, value: str) -> str:
        return f"TRY_CAST({value} AS {self.type(kind)})"

    # what the engines write differently
    def widened(self, kind: str, argument: Node, text: str) -> str:  # noqa: ARG002
        """An argument of arithmetic on decimals in a type in which the engine computes up to
        `kind`."""
        return text

    @abstractmethod
    def array(self, element: str) -> str: ...

    @abstractmethod
    def quoted(self, value: str) -> str: ...

    @abstractmethod
    def raw_double(self, text: str) -> str: ...

    @abstractmethod
    def raw_long(self, value: int) -> str: ...

    @abstractmethod
    def exact(self, op: str, left: str, right: str) -> str:
        """Integer arithmetic; null where the result is no int64."""

    @abstractmethod
    def divide(self, left: str, right: str) -> str:
        """Division of doubles; null where the divisor is zero."""

    @abstractmethod
    def truncated(self, value: str) -> str:
        """A double inside the range of int64 as an integer, towards zero."""

    @abstractmethod
    def matches(self, value: str, pattern: str) -> str:
        """Tells whether the whole text matches; patterns mean the same in Java and RE2."""


class _Spark(_Dialect):
    spark = True
    types: ClassVar[Mapping[str, str]] = {TIMESTAMP: "BIGINT", LONG: "BIGINT"}
    wide = "decimal(38,0)"

    def array(self, element: str) -> str:
        return f"array<{element}>"

    def quoted(self, value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        # Spark's parser substitutes ${…} before it reads literals
        return "'" + escaped.replace("$", "\\u0024") + "'"

    def raw_double(self, text: str) -> str:
        return f"({text}D)"

    def raw_long(self, value: int) -> str:
        return f"({value}L)" if value < 0 else f"{value}L"

    def exact(self, op: str, left: str, right: str) -> str:
        name = {"add": "try_add", "sub": "try_subtract", "mul": "try_multiply"}[op]
        left = "0L" if left == "0" else left
        return f"{name}({left}, {right})"

    def divide(self, left: str, right: str) -> str:
        return f"try_divide({left}, {right})"

    def truncated(self, value: str) -> str:
        return self.try_cast(LONG, value)

    def matches(self, value: str, pattern: str) -> str:
        return f"({value} RLIKE '^(?:{pattern})\\\\z')"  # $ would pass a final line feed


class _DuckDB(_Dialect):
    spark = False
    types: ClassVar[Mapping[str, str]] = {TIMESTAMP: "BIGINT", LONG: "BIGINT", STRING: "VARCHAR"}
    wide = "HUGEINT"

    def array(self, element: str) -> str:
        return f"{element}[]"

    def widened(self, kind: str, argument: Node, text: str) -> str:
        # two of at most 18 digits are computed in 18 digits, with an error beyond
        precision, scale = decimal_parts(argument.kind) or (0, 0)
        if (decimal_parts(kind) or (0, 0))[0] <= _INT64_DIGITS or precision > _INT64_DIGITS:
            return text
        return self.cast_to(f"decimal({_INT64_DIGITS + 1},{scale})", text)

    def quoted(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def raw_double(self, text: str) -> str:
        return f"CAST('{text}' AS DOUBLE)"

    def raw_long(self, value: int) -> str:
        return f"CAST('{value}' AS BIGINT)"

    def exact(self, op: str, left: str, right: str) -> str:
        wide = [self.cast_to(self.wide, value) for value in (left, right)]
        return self.try_cast(LONG, f"({wide[0]} {_ARITHMETIC[op]} {wide[1]})")

    def divide(self, left: str, right: str) -> str:
        return f"({left} / nullif({right}, {self.raw_double('0.0')}))"

    def truncated(self, value: str) -> str:
        return self.try_cast(LONG, f"trunc({value})")

    def matches(self, value: str, pattern: str) -> str:
        return f"regexp_full_match({value}, '{pattern}')"
