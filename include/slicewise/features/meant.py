"""A message says what its author may have meant by what stands where something else belongs."""

from __future__ import annotations

import inspect

import slicewise
from slicewise import calls
from slicewise.windows.window import Window


def shown(value: object) -> str:
    """A value for a message: a function or class of sw by its name there."""
    name = getattr(value, "__name__", None)
    if callable(value) and name in slicewise.__dir__():
        return f"sw.{name}, without its parentheses,"
    return calls.shown(value)


def aggregate(given: object) -> str:
    """Text to write instead of what is no aggregate."""
    from slicewise import hints  # a table that only a mistake needs

    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    if callable(given) and name in slicewise.__dir__():
        needed = [
            parameter
            for parameter in inspect.signature(given).parameters.values()
            if parameter.default is parameter.empty
        ]
        return f"call it: sw.{name}({'…' if needed else ''})"
    if isinstance(given, type):
        return f"call it with the columns that it reads: {name}(…)"
    return (
        hints.attribute_instead(name, slicewise.AGGREGATES)
        or 'write sw.count(), or sw.sum("column")'
    )


def windows(given: object) -> str:
    """Text to write instead of what is no list of windows."""
    if isinstance(given, str):
        return f'put it in [ ]: windows=["{given}"]'
    if isinstance(given, Window):
        return f"put it in [ ]: windows=[sw.{given.kind}(…)]"
    return 'write windows=["1h"]'
