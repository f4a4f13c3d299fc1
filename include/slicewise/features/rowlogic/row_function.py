"""A row function's value follows from its own row, whatever stands beside it, and never fails a
batch.

It is a function of the user's on Arrow arrays, kept as text (docs/adr/0046, 0047); a row for which
it raises, or gives a double that is no finite number, is left out of the view.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates.custom.functions import check_text, compiled
from slicewise.aggregates.custom.raised import LEFT_OUT, report_raised, written
from slicewise.aggregates.kernel.values import canonicalise
from slicewise.calls import checked_call, shown
from slicewise.errors import DefinitionError, written_at
from slicewise.features.schema.types import TIMESTAMP, arrow_type

OUTPUTS: Mapping[str, pa.DataType] = {
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
_NUMBERS = (
    "abs",
    "add",
    "ceil",
    "divide",
    "floor",
    "max_element_wise",
    "min_element_wise",
    "multiply",
    "negate",
    "sign",
    "sqrt",
    "subtract",
    "trunc",
)
_BITS = ("bit_wise_and", "bit_wise_not", "bit_wise_or", "bit_wise_xor")
_TRUTHS = (
    "and_kleene",
    "and_not_kleene",
    "equal",
    "greater",
    "greater_equal",
    "invert",
    "is_finite",
    "is_nan",
    "is_null",
    "is_valid",
    "less",
    "less_equal",
    "not_equal",
    "or_kleene",
    "xor",
)
_CHOICES = ("case_when", "choose", "coalesce", "fill_null", "if_else")
_TEXTS = (
    "ascii_lower",
    "ascii_upper",
    "binary_length",
    "ends_with",
    "find_substring",
    "match_substring",
    "replace_substring",
    "split_pattern",
    "starts_with",
    "utf8_length",
    "utf8_reverse",
    "utf8_slice_codeunits",
    "utf8_trim_whitespace",
)
_LISTS = ("list_element", "list_value_length")
COMPUTE = frozenset((*_NUMBERS, *_BITS, *_TRUTHS, *_CHOICES, *_TEXTS, *_LISTS))
"""Functions of pyarrow.compute, as `pc`, that it may call: of each row by itself, and to the last
bit alike on every machine."""
_PC = SimpleNamespace(**{name: getattr(pc, name) for name in sorted(COMPUTE)})
_FAMILIES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "long": pa.types.is_integer,
    "double": pa.types.is_floating,
    "boolean": pa.types.is_boolean,
    "string": lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)),
}
Flags = NDArray[np.bool_]


class _Untyped(TypeError):
    """A row function gave something else than its column."""


@dataclass(frozen=True)
class RowFunction:
    """name, source: the function and its text. reads: the columns that it is given. output: the
    type that it gives. types: those of the columns, once a view's planner knows them."""

    name: str
    source: str
    reads: tuple[str, ...]
    output: str
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.output, str) or self.output not in OUTPUTS:
            raise DefinitionError(
                f"output is {self.output!r}",
                where=f"row function {self.name!r}",
                expected="one of " + ", ".join(OUTPUTS),
                next_step='write @sw.row_function(output="double"), with the type that it gives',
            )
        if not self.reads:
            raise DefinitionError(
                f"row function {self.name!r} reads no column",
                where=f"row function {self.name!r}",
                expected="arguments that are named as columns are: def per_item(amount, items)",
                next_step="name the columns that it reads as its arguments",
            )
        check_text(self.source, {self.name: len(self.reads)}, {"pc": COMPUTE}, ("to_pylist",))

    @property
    def kind(self) -> str:
        """The type of its values."""
        return self.output

    def bind(self, kinds: Mapping[str, str]) -> RowFunction:
        """With the types of what it reads; they are all in kinds."""
        return replace(self, types=tuple(kinds[name] for name in self.reads))

    def stored(self) -> dict[str, Any]:
        """The parts of it that bear on stored values: what it reads and gives, and its text's
        digest."""
        digest = hashlib.sha256(self.source.encode()).hexdigest()
        return {"reads": [list(column) for column in zip(self.reads, self.types, strict=True)], "output": self.output,
                "sha256": digest}  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reads them back."""
        return {"name": self.name, "source": self.source, "reads": self.reads, "output": self.output,
                "types": self.types}  # fmt: skip

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RowFunction:
        """Inverse of `to_json`."""
        return RowFunction(
            raw["name"], raw["source"], tuple(raw["reads"]), raw["output"], tuple(raw["types"])
        )

    def of(self, columns: Mapping[str, pa.Array]) -> tuple[pa.Array, Flags]:
        """The function's values for these rows, and the flags of rows that have one: null
        elsewhere. Instants are given as microseconds."""
        arrays = [
            _given(columns[name], kind) for name, kind in zip(self.reads, self.types, strict=True)
        ]
        return self._of(arrays, len(arrays[0]))

    def _of(self, arrays: Sequence[pa.Array], n: int) -> tuple[pa.Array, Flags]:
        kind = OUTPUTS[self.output]
        if n == 0:
            return pa.array([], kind), np.ones(0, np.bool_)
        try:
            values = self._typed(_callable(self.source, self.name)(*arrays), n)
        except Exception as error:  # noqa: BLE001
            if n == 1:
                did = f"gave {error}" if isinstance(error, _Untyped) else error
                report_raised(self.source, _callable(self.source, self.name), did, LEFT_OUT)
                return pa.nulls(1, kind), np.zeros(1, np.bool_)
            half = n // 2
            first, there = self._of([array.slice(0, half) for array in arrays], half)
            second, here = self._of([array.slice(half) for array in arrays], n - half)
            return pa.concat_arrays([first, second]), np.concatenate([there, here])
        if self.output != "double":
            return values, np.ones(n, np.bool_)
        finite = np.asarray(
            pc.fill_null(pc.is_finite(values), True).to_numpy(zero_copy_only=False), np.bool_
        )
        return (values if finite.all() else pc.if_else(pa.array(finite), values, None)), finite

    def _typed(self, given: Any, n: int) -> pa.Array:
        kind = OUTPUTS[self.output]
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if isinstance(given, list):
            try:
                given = pa.array(given, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise _Untyped(f"{given!r:.80}, and output is {self.output}") from error
        if not isinstance(given, pa.Array):
            raise _Untyped(f"{given!r:.80}, and is to give an array or a list")
        if len(given) != n:
            raise _Untyped(f"{len(given)} values of {n} row{'s' if n > 1 else ''}")
        if not (_FAMILIES[self.output](given.type) or pa.types.is_null(given.type)):
            raise _Untyped(f"an array of {given.type}, and output is {self.output}")
        return canonicalise(given.cast(kind))


@checked_call
def row_function(
    bare: object = None, /, *, output: str | None = None
) -> Callable[[Callable[..., Any]], RowFunction]:
    """A computed column by a function of Python on Arrow arrays, one per column, which its
    arguments name.

    It gives an array (or a list) of as many values of `output`: long, double, boolean or string. It
    computes from its arguments alone, row by row, with `pc`, a part of pyarrow.compute;
    `slicewise check` runs it twice, in other batches and in another order, and compares bytes.
    """

    at = f"@sw.row_function ({written_at()})"
    if bare is not None or output is None:
        raise DefinitionError(
            "a row function does not say what it gives",
            where=at,
            expected='@sw.row_function(output="double")',
            next_step="one of " + ", ".join(OUTPUTS),
        )

    def made(function: Callable[..., Any]) -> RowFunction:
        plain = isinstance(function, FunctionType) and function.__name__ != "<lambda>"
        if not plain or function.__closure__ or "<locals>" in function.__qualname__:
            raise DefinitionError(
                f"{shown(function)} cannot be kept as text",
                where=at,
                expected="a function that is written with def in the project's module",
                next_step="move it to the top of the module",
            )
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError) as error:
            raise DefinitionError(
                f"the source of {function.__name__} cannot be read",
                where=at,
                expected="a function of a file",
                next_step="define it in a module; its text travels with the definition",
            ) from error
        (node,) = tree.body
        if not isinstance(node, ast.FunctionDef):
            raise DefinitionError(
                f"{function.__name__} is no plain function",
                where=at,
                expected="def, without async",
                next_step="write it so",
            )
        node.decorator_list, node.returns = [], None
        for argument in (*node.args.posonlyargs, *node.args.args):
            argument.annotation = None
        names = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))
        text = ast.unparse(node) + "\n"
        first = function.__code__.co_firstlineno
        written(text, function.__code__.co_filename, _lines(text, node, first - 1))
        return RowFunction(node.name, text, names, output)

    return made


def computed(
    functions: Sequence[tuple[str, RowFunction]], columns: Mapping[str, pa.Array]
) -> tuple[dict[str, pa.Array], dict[str, Flags]]:
    """Per function its column, and for which rows it has a value."""
    results = {name: function.of(columns) for name, function in functions}
    return {name: values for name, (values, _) in results.items()}, {
        name: there for name, (_, there) in results.items()
    }


def _lines(text: str, node: ast.FunctionDef, before: int) -> list[int]:
    """Per line of the text the line where it was written; before: the lines before the function's
    own first."""
    (again,) = ast.parse(text).body
    assert isinstance(again, ast.FunctionDef)
    lines = [node.lineno + before] * text.count("\n")
    for one, other in zip(_statements(again), _statements(node), strict=False):
        end = one.end_lineno or one.lineno
        lines[one.lineno - 1 : end] = [other.lineno + before] * (end - one.lineno + 1)
    return lines


def _statements(node: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function; what stands inside another statement comes after it."""
    return [
        statement
        for statement in ast.walk(node)
        if isinstance(statement, ast.stmt) and statement is not node
    ]


@lru_cache(maxsize=64)
def _callable(source: str, name: str) -> Callable[..., Any]:
    return compiled(source, {"pc": _PC})[name]


def _given(array: pa.Array, kind: str) -> pa.Array:
    return (
        array.cast(pa.int64()) if kind == TIMESTAMP else canonicalise(array.cast(arrow_type(kind)))
    )
