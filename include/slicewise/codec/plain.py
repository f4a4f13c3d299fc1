"""Finished values leave as what their type says: doubles bit for bit, text for what JSON lacks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

Converter = Callable[[pa.Array], list[Any]]


@lru_cache(maxsize=256)
def converter(kind: pa.DataType) -> Converter:
    """The converter of a finished column into Python values: int, float, str, bool, None, list,
    dict.

    Instants become RFC 3339 text, decimals text with all digits of their scale.
    """
    if pa.types.is_int64(kind) or pa.types.is_float64(kind):
        return _numbers
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_binary(kind):
        return _as_they_are
    return lambda array: [_plain(value) for value in _pylist(array)]


def _numbers(array: pa.Array) -> list[Any]:
    if array.null_count == 0:
        numbers: list[Any] = array.to_numpy().tolist()
        return numbers
    return _as_they_are(array)


def _as_they_are(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _pylist(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.generic):
        return value.item()
    return value


def has_doubles(kind: pa.DataType) -> bool:
    """Tells whether a value of this type can be a NaN or an infinity, which JSON cannot write."""
    if pa.types.is_floating(kind):
        return True
    return any(has_doubles(kind.field(i).type) for i in range(kind.num_fields))


def json_safe(value: Any) -> Any:
    """NaN and infinities as text; everything else as it is."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, list):
        return [json_safe(item) for item in value]
    if isinstance(value, dict):
        return {name: json_safe(item) for name, item in value.items()}
    return value
