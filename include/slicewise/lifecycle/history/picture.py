"""A picture is data until it is drawn: labels, series, and a sentence that says its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

from slicewise.lifecycle.history.buckets import Values

_LEAST = 0.001
MOST_SERIES = 6
"""Most series of a picture: more cannot be told apart."""
Shape = Literal["line", "log", "stacked", "bars"]
"""`log`: a line, its figures on a logarithmic scale."""


@dataclass(frozen=True)
class Picture:
    """Figures of one matter."""

    name: str
    title: str
    unit: str
    shape: Shape
    labels: tuple[str, ...]
    series: Mapping[str, Values]
    text: str
    """The figures in a sentence, for who sees no picture."""
    empty: str = ""
    """Words in place of a picture that has no figures: why, and what brings them."""
    across: str = "time (UTC)"
    """Meaning of the labels."""

    @property
    def has_figures(self) -> bool:
        """Tells whether there is anything to draw."""
        return any(value is not None for values in self.series.values() for value in values)

    def rows(self) -> list[tuple[str, tuple[float | None, ...]]]:
        """Rows of the table beside the picture: labels that have a figure, and their figures."""
        columns = zip(*self.series.values(), strict=True) if self.series else ()
        rows = zip(self.labels, columns, strict=False)
        return [(label, row) for label, row in rows if any(value is not None for value in row)]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they are served beside the page."""
        return asdict(self) | {"series": {n: list(v) for n, v in self.series.items()}}


def largest(series: Mapping[str, Values], most: int = MOST_SERIES) -> dict[str, Values]:
    """The series with the largest values, in their order; the others are left out."""

    def reach(name: str) -> float:
        return max((value for value in series[name] if value is not None), default=0.0)

    chosen = sorted(series, key=lambda name: (-reach(name), name))[:most]
    return {name: values for name, values in series.items() if name in chosen}


def together(series: Mapping[str, Values], most: int = MOST_SERIES) -> dict[str, Values]:
    """The largest series, and the sum of all others as one."""
    if len(series) <= most:
        return dict(series)
    chosen = largest(series, most - 1)
    others = [values for name, values in series.items() if name not in chosen]
    left = f"{len(others)} others"
    return chosen | {left: tuple(_sum(step) for step in zip(*others, strict=True))}


def _sum(values: tuple[float | None, ...]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def number(value: float | None) -> str:
    """A figure for people: at most four digits that count."""
    if value is None or not isfinite(value):
        return "–"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < _LEAST:
        return f"< {_LEAST}" if value > 0 else f"> -{_LEAST}"
    return f"{value:.3g}"
