"""Every field of a user's class has one stored form; nothing of another type is stored.

An integer of any size is the fewest bytes that hold it, two's complement, big-endian, none of zero;
it and a text stand as a list of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slicewise.aggregates.custom.folding import FUNCTION
from slicewise.aggregates.kernel.fields import Field, Fixed, Items, Texts
from slicewise.aggregates.kernel.values import is_decimal, is_double, is_integer, is_text
from slicewise.aggregates.operations import Failed

_FIXED: Mapping[str, str] = {"long": "<i8", "double": "<f8", "boolean": "|u1"}
_LISTS: Mapping[str, str] = {"list<long>": "<i8", "list<double>": "<f8"}


def answer_of(value: Any, output: str) -> Any:
    """The answer of a class in its one form; `Failed` where it is not of the declared type."""
    if value is None:
        return None
    if output == "double" and type(value) in (int, float):
        return math.nan if value != value else float(value) + 0.0
    if output == "long" and type(value) is int and -(2**63) <= value < 2**63:
        return value
    if output == "boolean" and type(value) is bool:
        return value
    if output == "string" and type(value) is str:
        value.encode()
        return value
    return Failed(FUNCTION)


def family(kind: pa.DataType) -> str:
    if is_integer(kind):
        return "long"
    if is_double(kind):
        return "double"
    if is_decimal(kind):
        return "decimal"
    if is_text(kind):
        return "string"
    if pa.types.is_boolean(kind):
        return "boolean"
    return (
        "date"
        if pa.types.is_date32(kind)
        else "timestamp_us"
        if pa.types.is_timestamp(kind)
        else str(kind)
    )


def field_of(name: str, kind: str) -> Field:
    if kind in _FIXED:
        return Fixed(name, _FIXED[kind])
    return Items(name, _LISTS[kind]) if kind in _LISTS else Texts(name)


def stored(value: Any, kind: str) -> Any:
    """A field's value as it is stored; None where it is of another type."""
    if kind.startswith("list<"):
        inner = kind[5:-1]
        if not isinstance(value, tuple | list):
            return None
        made = [stored(item, inner) for item in value]
        if any(item is None for item in made):
            return None
        return tuple(item[0] for item in made) if inner == "string" else tuple(made)
    if kind == "double" and type(value) in (int, float):
        return math.nan if value != value else float(value) + 0.0
    if kind == "long":
        return value if type(value) is int and -(2**63) <= value < 2**63 else None
    if kind == "boolean":
        return int(value) if type(value) is bool else None
    if kind == "string" and type(value) is str:
        return (value.encode(),)
    if kind == "integer" and type(value) is int:
        bits = (value if value > 0 else ~value).bit_length()
        return (value.to_bytes(bits // 8 + 1, "big", signed=True) if value else b"",)
    return None


def loaded(value: Any, kind: str) -> Any:
    if kind == "boolean":
        return bool(value)
    if kind == "string":
        return value[0].decode()
    if kind == "integer":
        return int.from_bytes(value[0], "big", signed=True)
    if kind == "list<string>":
        return tuple(item.decode() for item in value)
    return value


def size(value: Any) -> int:
    if not isinstance(value, tuple):
        return 8
    return sum(len(item) + 4 if isinstance(item, bytes) else 8 for item in value)
