"""A figure never stands alone: it has the baseline's beside it, or the bound that it must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Percentiles:
    """Quantiles of a sample, by nearest rank, in milliseconds."""

    n: int
    p50: float
    p90: float
    p99: float
    p999: float
    worst: float

    @staticmethod
    def of(milliseconds: Sequence[float]) -> Percentiles:
        """The spread of at least one value."""
        ascending = sorted(milliseconds)
        n = len(ascending)

        def at(q: float) -> float:
            return round(ascending[max(0, math.ceil(q * n) - 1)], 3)

        return Percentiles(n, at(0.5), at(0.9), at(0.99), at(0.999), round(ascending[-1], 3))


@dataclass(frozen=True)
class Figure:
    """One measured quantity, of slicewise and of what it is compared with."""

    section: str
    name: str
    unit: str
    ours: float
    theirs: float | None = None
    better: str = "lower"
    """lower or higher."""
    aim: float | None = None
    """Factor by which it shall be better than the baseline."""
    bound: float | None = None
    """Figure that it must not exceed (or fall below, where higher is better)."""
    others: Mapping[str, float] = field(default_factory=dict)
    """The same quantity of further baselines, by name."""

    @property
    def times_better(self) -> float | None:
        """The factor by which it is better than the baseline: above 1 is better, whichever way that
        is."""
        if self.theirs is None or not self.ours or not self.theirs:
            return None
        return self.theirs / self.ours if self.better == "lower" else self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        """Tells whether aim and bound are kept; None where there is neither."""
        kept = []
        if self.aim is not None:
            kept.append((self.times_better or 0.0) >= self.aim)
        if self.bound is not None:
            kept.append(
                self.ours <= self.bound if self.better == "lower" else self.ours >= self.bound
            )
        return all(kept) if kept else None

    def to_json(self) -> dict[str, Any]:
        """Plain values, with what follows from them."""
        ratio = self.times_better
        return asdict(self) | {
            "times_better": None if ratio is None else round(ratio, 3),
            "met": self.met,
        }


def shares(
    section: str, unit: str, ours: Mapping[str, float], theirs: Mapping[str, float] | None = None
) -> list[Figure]:
    """Shares of each program in a processor time, those that matter: where the rest would have to
    come from."""
    other = theirs or {}
    return [
        Figure(section, f"  of it {name}", unit, spent, other.get(name))
        for name, spent in ours.items()
        if spent > 0.05
    ]


HEAD = ("", "slicewise", "baseline", "times better", "wanted", "")


def table(figures: Sequence[Figure]) -> str:
    """The figures as text, a block per section."""
    rows: list[tuple[str, ...]] = []
    section = ""
    for figure in figures:
        if figure.section != section:
            section = figure.section
            rows.append((section, *HEAD[1:]))
        rows.append(_row(figure))
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = []
    for row in rows:
        if row[1:] == HEAD[1:]:
            lines.append("")
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:5], widths[1:5], strict=True)),
        ]
        lines.append("  ".join([*cells, row[5]]).rstrip())
    return "\n".join(lines[1:])


def _row(figure: Figure) -> tuple[str, ...]:
    ratio = figure.times_better
    wanted = []
    if figure.aim is not None:
        wanted.append(f"≥ {figure.aim:g}×")
    if figure.bound is not None:
        wanted.append(f"{'≤' if figure.better == 'lower' else '≥'} {figure.bound:g}")
    met = figure.met
    words = ["" if met is None else "met" if met else "NOT MET"]
    words += [f"{name} {_number(value)}" for name, value in figure.others.items()]
    return (
        f"  {figure.name}, {figure.unit}",
        _number(figure.ours),
        "" if figure.theirs is None else _number(figure.theirs),
        "" if ratio is None else f"{ratio:.2f}",
        ", ".join(wanted),
        "  ".join(text for text in words if text),
    )


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}"
