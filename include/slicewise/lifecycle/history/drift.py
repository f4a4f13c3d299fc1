"""Values of a feature are counted in bins that never change: any two runs can be compared.

A bin is a power of two, with its sign; of a list or a text only whether it is there is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import frexp, isfinite, log
from typing import Any

from slicewise.windows.durations import HOUR_US

_LEAST, _MOST = -10, 40
"""Powers of two beyond which values share a bin."""
NULL, VALUES, BINS = "null", "values", "bins"
REFERENCES = (24, 1)
"""Hours back at which a reference lies: the first of them that has values. What is expected of
features and what the reports show is compared to the same."""
REACH_US = (max(REFERENCES) + 1) * HOUR_US
"""Time before a run within which its reference lies."""


def bin_of(value: float) -> int:
    """Number of a value's bin; bins and values have one order."""
    if value == 0:
        return 0
    power = min(_MOST, max(_LEAST, frexp(abs(value))[1] - 1))
    return (power - _LEAST + 1) * (1 if value > 0 else -1)


def bin_label(number: int) -> str:
    """The smallest magnitude in a bin, with its sign."""
    if number == 0:
        return "0"
    size = 2.0 ** (abs(number) - 1 + _LEAST)
    text = f"{size:,.0f}" if 1 <= size < 1e5 else f"{size:.2g}"
    return text if number > 0 else f"−{text}"


def summary(values: Iterable[object]) -> dict[str, Any]:
    """Counts of a feature's values: all, those that are null, and those in each bin."""
    count = null = 0
    bins: Counter[int] = Counter()
    for value in values:
        count += 1
        null += value is None
        if isinstance(value, int | float) and isfinite(value):
            bins[bin_of(float(value))] += 1
    return {VALUES: count, NULL: null, BINS: {str(name): bins[name] for name in sorted(bins)}}


def stability(first: Mapping[str, int], last: Mapping[str, int]) -> float:
    """Population stability index of two histograms: the sum over bins of the difference of their
    shares times the logarithm of their quotient. Each bin has half a value more, so that none is
    empty."""
    names = set(first) | set(last)
    counts = [{name: of.get(name, 0) + 0.5 for name in names} for of in (first, last)]
    before, after = ({n: c / sum(of.values()) for n, c in of.items()} for of in counts)
    return sum((after[n] - before[n]) * log(after[n] / before[n]) for n in names)


@dataclass(frozen=True)
class Change:
    """Two histograms of a feature: of its last run, and of the one that it is compared to."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    before_us: int
    after_us: int
    hours: int | None
    """Hours back at which the reference was looked for; None: it is the first that was kept."""

    @property
    def index(self) -> float:
        """Population stability index of both."""
        return stability(self.before, self.after)


def change(runs: Sequence[tuple[int, Mapping[str, int]]]) -> Change | None:
    """The last of a feature's runs and its reference: the run that is nearest to the first of
    REFERENCES that has one within half an hour, else the first that was kept. None of one run.
    runs: (time, bins), in the order of their times."""
    if len(runs) < 2:
        return None
    after_us, after = runs[-1]
    for hours in REFERENCES:
        wanted_us = after_us - hours * HOUR_US
        at_us, before = min(runs[:-1], key=lambda run: abs(run[0] - wanted_us))
        if abs(at_us - wanted_us) <= HOUR_US // 2:
            return Change(before, after, at_us, after_us, hours)
    at_us, before = runs[0]
    return Change(before, after, at_us, after_us, None)
