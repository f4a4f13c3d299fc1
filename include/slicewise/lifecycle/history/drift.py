"""Values of a feature are counted in bins that never change: any two runs can be compared.

A bin is a power of two, with its sign; of a list or a text only whether it is there is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import frexp, isfinite, log
from typing import Any

_LEAST, _MOST = -10, 40
"""Powers of two beyond which values share a bin."""
NULL, VALUES, BINS = "null", "values", "bins"


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
