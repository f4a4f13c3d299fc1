"""Faults of values and files that were handed in, by row and value; no library's words for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

CANNOT_CONVERT = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
    UnicodeEncodeError,
)
"""Errors of building or casting a column, for values that are not of its type."""
_MOST_SHOWN = 60
_FAULTS: Sequence[tuple[str, Callable[[re.Match[str]], str]]] = (
    (r"Empty (CSV|JSON) file|file size is 0 bytes", lambda _: "it is empty"),
    (
        r"Expected (\d+) columns, got (\d+): (.*)",
        lambda m: f"the line of names has {m[1]} columns, and a line has {m[2]}: {_cut(m[3])}",
    ),
    (
        r"CSV column #(\d+).*invalid UTF8",
        lambda m: f"column {int(m[1]) + 1} holds a text that is not UTF-8",
    ),
    (
        r"CSV column #(\d+).*invalid value '(.*)'",
        lambda m: f"column {int(m[1]) + 1} holds {_cut(repr(m[2]))}",
    ),
    (
        r"Column\(/(.+)\) changed from (\w+) to (\w+) in row (\d+)",
        lambda m: f"column {m[1]!r} is a {m[2]}, and in row {m[4]} a {m[3]}",
    ),
    (r"JSON parse error.* in row (\d+)", lambda m: f"row {m[1]} is no JSON object"),
    (r"is a directory|Error creating dataset", lambda _: "it is a folder, or not of that kind"),
)


def of_file(error: Exception) -> str:
    """Tells why a file could not be read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "it may not be read"
    if isinstance(error, IsADirectoryError):
        return "it is a folder"
    text = str(error).partition("\n")[0]
    matches = ((re.search(pattern, text), message) for pattern, message in _FAULTS)
    return next(
        (message(match) for match, message in matches if match), "its content is not of that kind"
    )


def of_values(values: Sequence[Any]) -> tuple[str, int | None]:
    """Tells why values are no column, and the row that shows it; None where no single row does."""
    before: tuple[int, Any] | None = None
    for row, value in enumerate(values):
        if value is None:
            continue
        try:
            pa.array([value])
        except CANNOT_CONVERT:
            return f"{shown(value)} is no value of a column", row
        if before is not None and _family(before[1]) != _family(value):
            return (
                (
                    f"values of several types: {shown(value)}, and in row {before[0]} "
                    f"{shown(before[1])}"
                ),
                row,
            )
        before = before or (row, value)
    return "values of several types", None


def of_cast(column: pa.Array, target: pa.DataType) -> tuple[str, int | None]:
    """The first value of a column that its type cannot hold, and its row."""
    first, beyond = 0, len(column)
    while beyond - first > 1:  # the first half that cannot be cast has the first value that cannot
        half = (first + beyond) // 2
        first, beyond = (
            (first, half)
            if not _casts(column.slice(first, half - first), target)
            else (half, beyond)
        )
    if not len(column) or _casts(column.slice(first, 1), target):
        return "a value does not fit", None
    return f"a value does not fit: {shown(column[first].as_py())}", first


def _casts(part: pa.Array, target: pa.DataType) -> bool:
    try:
        part.cast(target)
    except CANNOT_CONVERT:
        return False
    return True


def fits(value: Any, kind: pa.DataType) -> bool:
    """Tells whether a column of this type can hold the value."""
    try:
        pa.array([value], kind)
    except CANNOT_CONVERT:
        return False
    return True


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def shown(value: Any) -> str:
    """A value for a message: its text where that is short, else its type."""
    if value is None:
        return "None"
    if isinstance(value, str | int | float | Decimal | list | tuple | dict | bytes):
        return _cut(ascii(value) if isinstance(value, str) and not _encodes(value) else repr(value))
    return f"an instance of {type(value).__name__}"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
