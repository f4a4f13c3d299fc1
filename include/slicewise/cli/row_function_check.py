"""A row function that is not one of its row alone, or differs between runs, is found before
deployment."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.errors import DefinitionError
from slicewise.features.rowlogic.row_function import Flags, RowFunction
from slicewise.features.schema.types import TIMESTAMP, arrow_type, decimal_parts, element_type

ROWS, SEED = 240, 20261121
_VALUES: dict[str, list[Any]] = {
    "string": ["", "a", "é", "日本", "a b", "x" * 50, "1", None],
    "long": [0, 1, -1, 7, 2**31, 2**63 - 1, -(2**63), None],
    "double": [0.0, 1.0, -1.5, 0.1, 1e308, -1e308, 5e-324, 3.0, None],
    "boolean": [True, False, None],
    "date": [0, 1, -1, 19_000, None],
    TIMESTAMP: [0, 1, -1, 1_767_225_600_000_000, None],
}


def verify(function: RowFunction, where: str) -> None:
    """Runs it over made-up rows, twice, in other batches and orders. Raises DefinitionError where
    bytes differ."""
    random = Random(SEED)
    columns = {
        name: pa.array([random.choice(_values(kind)) for _ in range(ROWS)], arrow_type(kind))
        for name, kind in zip(function.reads, function.types, strict=True)
    }
    whole = _plain(function.of(columns))
    back = {name: array.take(pa.array(np.arange(ROWS)[::-1])) for name, array in columns.items()}
    single = [
        _plain(function.of({n: a.slice(i, 1) for n, a in columns.items()}))[0] for i in range(ROWS)
    ]
    for what, again in (
        ("run again", _plain(function.of(columns))),
        ("over the same rows in another order", _plain(function.of(back))[::-1]),
        ("row by row", single),
    ):
        if again != whole:
            at = next(
                i for i, (one, other) in enumerate(zip(whole, again, strict=True)) if one != other
            )
            row = {name: array[at].as_py() for name, array in columns.items()}
            raise DefinitionError(
                (
                    f"row function {function.name!r} gives other values {what}: {whole[at]} and "
                    f"{again[at]} of {row}"
                ),
                where=where,
                expected="a value that follows from its row alone",
                next_step="compute from the arguments element by element",
            )
    if not any(there for _, there in whole):
        raise DefinitionError(
            f"row function {function.name!r} gives no value of type {function.output} for any row",
            where=where,
            expected=f"an array of as many values of type {function.output} as rows",
            next_step="call it with arrays of your own to see what it raises",
        )


def _values(kind: str) -> list[Any]:
    element = element_type(kind)
    if element is not None:
        some = _values(element)
        return [[], some[:1], some[:3], [None], None]
    parts = decimal_parts(kind)
    if parts:
        digits, scale = parts
        return [Decimal(n).scaleb(-scale) for n in (0, 1, -1, 10**digits - 1)] + [None]
    return _VALUES[kind]


def _plain(given: tuple[pa.Array, Flags]) -> list[tuple[Any, bool]]:
    """Values that are equal only where their bytes are."""
    values, there = given
    plain = [value.hex() if isinstance(value, float) else value for value in values.to_pylist()]
    return list(zip(plain, there.tolist(), strict=True))
