"""A name that does not exist is answered with those that do, the nearest first."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from slicewise.errors import UnknownName


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a mistyped name."""
    known = sorted(known)
    otherwise = [other for other in known if other != name and other.lower() == name.lower()]
    if otherwise:
        return f"names are told apart by case: did you mean {otherwise[0]}?"
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "name one of those that exist" if known else "define one first"


def listed(known: Iterable[str], most: int = 20) -> str:
    """Names as text, cut where there are too many to read."""
    names = sorted(known)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none exists") + more


def unknown(what: str, name: str, known: Iterable[str], where: str | None = None) -> UnknownName:
    """The error for a name that nobody defined."""
    known = list(known)
    return UnknownName(
        f"unknown {what} {name!r}",
        where=where,
        expected="one of " + listed(known) if known else "none exists",
        next_step=nearest(name, known),
    )
