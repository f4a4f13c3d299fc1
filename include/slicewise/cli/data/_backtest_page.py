"""A backtest as one page that reads without a network, with pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slicewise.cli.pages import rendered
from slicewise.models.measures import MEASURE_WORDS, Gain, Measures
from slicewise.training.backtest.backtest import LEAST_ROWS, Backtest

SIDE, WIDTH, HEIGHT = 300.0, 640.0, 150.0


@dataclass(frozen=True)
class Dot:
    """A bin of a calibration, in units of its picture."""

    x: float
    y: float
    r: float
    is_b: bool
    label: str


@dataclass(frozen=True)
class Bar:
    """A bin of the scores, in units of its picture."""

    x: float
    width: float
    height: float
    is_b: bool
    label: str


def page(outcome: Backtest) -> str:
    """The page as HTML."""
    most = max(
        (
            one.rows / of.rows
            for of in (outcome.by_b, outcome.by_a)
            if of is not None
            for one in of.calibration
        ),
        default=1.0,
    )
    own = [(outcome.model, outcome.by_b, True)]
    both = [(outcome.beside, outcome.by_a, False), *own] if outcome.by_a is not None else own
    return rendered(
        "backtest.html",
        of=outcome,
        warnings=list(warnings(outcome)),
        measures=list(measures(outcome)),
        verdict="" if outcome.gain is None else verdict(outcome, outcome.gain),
        calibration=[dot for name, of, is_b in both for dot in _dots(name, of, is_b)],
        bars=[bar for name, of, is_b in both for bar in _bars(name, of, is_b, most)],
        least=LEAST_ROWS,
    )


def verdict(outcome: Backtest, gain: Gain) -> str:
    """The gain in words."""
    if gain.verdict == "no difference":
        return "No difference that these rows show"
    return f"{outcome.model} is {gain.verdict}"


def measures(outcome: Backtest) -> Iterator[tuple[str, float | None, float | None]]:
    """Words, value of B and value of A, of each measure that either has."""
    of_a = {} if outcome.by_a is None else outcome.by_a.values
    for name, words in MEASURE_WORDS:
        if name in outcome.by_b.values or name in of_a:
            yield words, outcome.by_b.values.get(name), of_a.get(name)


def warnings(outcome: Backtest) -> Iterator[str]:
    """Doubts about the outcome, for people."""
    for leak in outcome.leaks:
        yield (
            f"{leak.feature} by itself tells the label (area under the curve {leak.auc:.4f}): "
            "does it know what was still to come?"
        )
    if outcome.labels_before:
        yield f"{outcome.labels_before:,} labels came before the answers that they belong to"
    if outcome.corrected:
        yield f"{outcome.corrected:,} labels were corrected; the newest counts"


def _dots(name: str, of: Measures, is_b: bool) -> Iterator[Dot]:
    for one in of.calibration:
        if one.score is not None and one.rate is not None:
            label = f"{name}: mean score {one.score:.3f}, rate {one.rate:.3f}, {one.rows:,} rows"
            size = 3 + 12 * (one.rows / of.rows) ** 0.5
            yield Dot(SIDE * one.score, SIDE * (1 - one.rate), size, is_b, label)


def _bars(name: str, of: Measures, is_b: bool, most: float) -> Iterator[Bar]:
    step = WIDTH / max(1, len(of.calibration))
    for i, one in enumerate(of.calibration):
        share = one.rows / of.rows
        label = f"{name}: {100 * share:.1f} % from {one.low:.1f} to {one.high:.1f}"
        left = i * step + step * (0.5 if is_b else 0.1)
        yield Bar(left, step * 0.4, HEIGHT * share / most, is_b, label)
