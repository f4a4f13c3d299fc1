"""JSON records become events where they plainly say one; what might be read in two ways is left to
the platform's own reader."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    element_type,
)

_LONGS = range(-(2**63), 2**63)


class NotPlain(ValueError):
    """A record is bad, or is read by rules that only the platform's reader has."""


def plain_event(source: Source, value: bytes | None) -> dict[str, Any]:
    """The source's columns of a JSON record, as `typed_events` takes them. Raises NotPlain."""
    try:
        record = json.loads((value or b"").decode("utf-8"), object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise NotPlain("no JSON object") from error
    if not isinstance(record, Mapping):
        raise NotPlain("no JSON object")
    paths = dict(source.paths)
    event: dict[str, Any] = {}
    for name, kind in source.columns:
        given = _at(record, paths.get(name, (name,)))
        if given is not None:
            event[name] = _value(given, kind, source.time_form)
    return event


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotPlain("a member stands twice")
    return members


def _at(record: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if record is None:
            return None
        if not isinstance(record, Mapping):
            raise NotPlain(f"{name} is a member of no object")
        record = record.get(name)
    return record


def _value(given: Any, kind: str, time_form: str) -> Any:
    element = element_type(kind)
    if element is not None:
        if not isinstance(given, list):
            raise NotPlain("no list")
        return [_value(one, element, time_form) for one in given]
    if kind == TIMESTAMP:
        plain = isinstance(given, str) if time_form == "rfc3339" else type(given) is int
    else:
        plain = _PLAIN.get(kind, _is_number)(given)
    if not plain:
        raise NotPlain(f"no plain {kind}")
    return float(given) if kind == DOUBLE else given


def _is_number(given: Any) -> bool:
    return type(given) is int or (type(given) is float and math.isfinite(given))


def _is_date(given: Any) -> bool:
    try:
        return isinstance(given, str) and date.fromisoformat(given).isoformat() == given
    except ValueError:
        return False


_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    STRING: lambda given: isinstance(given, str),
    LONG: lambda given: type(given) is int and given in _LONGS,
    DOUBLE: _is_number,
    BOOLEAN: lambda given: isinstance(given, bool),
    DATE: _is_date,
}
"""Kind -> whether a value is plainly of it; of decimals: a number."""
