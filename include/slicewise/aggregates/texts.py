"""A parameter that names a column is text, and one that is a list is a list: refused where it is
written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import fields
from typing import Any

from slicewise.aggregates.contract import Aggregate
from slicewise.errors import DefinitionError

_TEXTS = {"str": str, "str | None": str | None, "tuple[str, ...]": tuple}


def check_texts(aggregate: Aggregate) -> None:
    """Refuse an aggregate that was given something else where it declares text, or texts."""
    for field in fields(aggregate):
        kind, value = _TEXTS.get(str(field.type)), getattr(aggregate, field.name)
        if kind is None:
            continue
        wrong = (
            [value]
            if not isinstance(value, kind)
            else [v for v in _members(value) if not isinstance(v, str)]
        )
        if wrong:
            raise DefinitionError(
                f"{field.name} is {value!r}",
                where=f"{aggregate.kind}(…)",
                expected="text, such as the name of a column",
                next_step=(
                    "name a column of the source or of the view's columns; an expression is a "
                    "column of the view"
                ),
            )


def _members(value: object) -> Iterable[object]:
    return value if isinstance(value, tuple) else ()


def listed(value: Any, name: str, example: str) -> tuple[Any, ...]:
    """A list that a caller gave, as a tuple; a text is none, although its letters are."""
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise DefinitionError(
            f"{name} is {value!r}",
            where=f"{name}=",
            expected=f"a list: {name}={example}",
            next_step="put it in [ ]",
        )
    return tuple(value)
