"""A user derives from a class that is no aggregate itself, but makes one of its own text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slicewise.aggregates import contract as base
from slicewise.aggregates.combinators.conditional import only
from slicewise.aggregates.custom.classes import read_class, text_of
from slicewise.aggregates.custom.own import Own
from slicewise.errors import DefinitionError


class _Makes(type):
    def __call__(cls, *columns: str, where: str | None = None, **given: Any) -> base.Aggregate:
        """The aggregate of these columns: in the order in which the class names its own, or by
        their names."""
        if cls is Aggregate or cls.__bases__ != (Aggregate,):
            raise DefinitionError(
                f"{cls.__name__} is no aggregate of its own",
                where=f"class {cls.__name__}",
                expected="a class that derives from sw.Aggregate and from nothing else",
                next_step="docs/guides/own_aggregates.md shows a whole one",
            )
        source = text_of(cls)
        roles = list(read_class(source).columns)
        named = {name: given.pop(name) for name in roles[len(columns) :] if name in given}
        listed = (*columns, *(named[name] for name in roles[len(columns) :] if name in named))
        made = Own.of_parameters({"source": source, "columns": listed, "parameters": given})
        return made if where is None else only(made, where)


class Aggregate(metaclass=_Makes):
    """An aggregate of one's own: a class with columns, fields, output, empty, accumulate, combine
    and finish.

    Example: `Spread("seconds")`
    """

    if TYPE_CHECKING:  # what the metaclass does, as type checkers can tell it

        def __new__(cls, *columns: str, where: str | None = None, **given: Any) -> Any: ...
