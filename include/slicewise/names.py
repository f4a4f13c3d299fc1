"""A name that does not exist is answered with those that do, the nearest first."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from slicewise.errors import UnknownName


def nearest(name: str, defined: Iterable[str]) -> str:
    """A hint for a mistyped name."""
    defined = sorted(defined)
    otherwise = [other for other in defined if other != name and other.lower() == name.lower()]
    if otherwise:
        return f"names are told apart by case: did you mean {otherwise[0]}?"
    close = difflib.get_close_matches(name, defined, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "name one of those that exist" if defined else "define one first"


def listed(defined: Iterable[str], most: int = 20) -> str:
    """Names as text, cut where there are too many to read."""
    names = sorted(defined)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none exists") + more


def unknown(what: str, name: str, defined: Iterable[str], where: str | None = None) -> UnknownName:
    """The error for a name that nobody defined."""
    defined = list(defined)
    return UnknownName(
        f"unknown {what} {name!r}",
        where=where,
        expected="one of " + listed(defined) if defined else "none exists",
        next_step=nearest(name, defined),
    )
