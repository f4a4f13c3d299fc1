"""A length of SQL is a whole number of a unit that is always as long; a window is named by how its
author writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from sqlglot import exp

from slicewise.errors import DefinitionError
from slicewise.features.sql.text import Span, SqlText, Tokens, node_span
from slicewise.windows.durations import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    format_duration,
    parse_duration,
)
from slicewise.windows.window import Window

_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND_US,
    "MINUTE": MINUTE_US,
    "HOUR": HOUR_US,
    "DAY": DAY_US,
    "WEEK": 7 * DAY_US,
}


@dataclass(frozen=True)
class Meant:
    """A window, but for how its author writes its lengths: `make` takes them as texts. span: where
    it stands."""

    make: Callable[..., Window]
    lengths_us: tuple[int, ...]
    span: Span

    def plain(self) -> Window:
        """The window with its lengths in their shortest form."""
        return self.make(*(format_duration(us) for us in self.lengths_us))

    def named(self, alias: str) -> tuple[str, Window] | None:
        """(feature, window) of a column that is named by its window, as in basket_3h; None if it is
        not."""
        for texts in self._texts(alias):
            window = self.make(*texts)
            suffix = "_" + window.column_suffix()
            if alias.endswith(suffix) and len(alias) > len(suffix):
                return alias[: -len(suffix)], window
        return None

    def _texts(self, alias: str) -> Iterator[tuple[str, ...]]:
        options = []
        for us in self.lengths_us:
            written = [part for part in alias.split("_") if _is(part, us)]
            options.append([format_duration(us), *written])
        yield from product(*options)


def _is(part: str, us: int) -> bool:
    try:
        return parse_duration(part) == us
    except DefinitionError:
        return False


def interval(sql: SqlText, node: Any, span: Span) -> int:
    """Microseconds of INTERVAL '3' HOUR."""
    value = unit = ""
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        value, unit = (
            str(node.this.this).strip(),
            str(getattr(node.args.get("unit"), "name", "") or "").upper(),
        )
    size = _UNITS.get(unit.removesuffix("S"))
    if size is None or not is_whole(value) or not int(value):
        units = ", ".join(_UNITS)
        month = unit.removesuffix("S") in ("MONTH", "YEAR", "QUARTER")
        raise sql.refused(
            f"a {unit.lower()} has no fixed length"
            if month
            else "a length of nothing"
            if is_whole(value) and not int(value)
            else "this is no length of a window",
            (node_span(node) if isinstance(node, exp.Expr) else None) or span,
            f"INTERVAL '3' HOUR: a whole number of {units}",
            "write it in days" if month else None,
        )
    return int(value) * size


def is_whole(text: str) -> bool:
    """Tells whether it is a whole number in the ten digits: other scripts have digits that are none
    to int."""
    return text.isascii() and text.isdigit()


def entity_column(sql: SqlText, node: exp.Expr, clause: str, tokens: Tokens) -> exp.Column:
    """A column of PARTITION BY or GROUP BY. Raises SqlRefused for an expression."""
    if isinstance(node, exp.Column) and not node.args.get("table"):
        return node
    raise sql.refused(
        f"{clause} takes columns of the source: they are the entity, and its keys in the store",
        node_span(node) or tokens.span(),
        "a column",
        "produce the value as a column of its own",
    )
