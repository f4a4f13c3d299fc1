"""The difference of two versions as one page that reads without a network, with a picture for each
feature."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.cli.pages import rendered
from slicewise.lifecycle.history import drift
from slicewise.training.tables.instants import text_of
from slicewise.training.versions.difference import ColumnDifference, Difference

WIDTH, HEIGHT = 640, 160


@dataclass(frozen=True)
class Bar:
    """A bar of a picture, in its units. part: of all values of its version, in percent."""

    left: float
    top: float
    width: float
    height: float
    is_now: bool
    label: str
    part: float


@dataclass(frozen=True)
class Picture:
    """Both versions' values side by side, by size. labels: (middle, text) below the bars."""

    bars: tuple[Bar, ...]
    labels: tuple[tuple[float, str], ...]


def page(outcome: Difference) -> str:
    """The page as HTML."""
    changed = sorted(outcome.columns, key=lambda one: -one.changed)
    return rendered(
        "difference.html",
        of=outcome,
        at=text_of(outcome.at_us),
        columns=[(one, picture(one)) for one in changed],
        width=WIDTH,
        height=HEIGHT,
    )


def picture(of: ColumnDifference) -> Picture | None:
    """The values of a feature as bars; None where there is no number among them."""
    bins = sorted({*map(int, of.then), *map(int, of.now)})
    if not bins:
        return None
    bins = list(range(bins[0], bins[-1] + 1))
    totals = [max(1, sum(counts.values())) for counts in (of.then, of.now)]
    parts = [
        [counts.get(str(number), 0) / total for number in bins]
        for counts, total in zip((of.then, of.now), totals, strict=True)
    ]
    top = max(max(of_version) for of_version in parts)
    step = WIDTH / len(bins)
    bars = tuple(
        Bar(
            i * step + step * (0.1 + 0.4 * which),
            HEIGHT * (1 - part / top),
            step * 0.4,
            HEIGHT * part / top,
            which == 1,
            drift.bin_label(bins[i]),
            100 * part,
        )
        for which, of_version in enumerate(parts)
        for i, part in enumerate(of_version)
        if part
    )
    every = max(1, -(-len(bins) // 12))
    labels = tuple(
        ((i + 0.5) * step, drift.bin_label(number))
        for i, number in enumerate(bins)
        if i % every == 0
    )
    return Picture(bars, labels)
