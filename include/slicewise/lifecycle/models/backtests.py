"""A run of Airflow alone decides which backtest it makes: tried again, it reads the same rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from slicewise.errors import BadRequest
from slicewise.lifecycle.jobs import Run

PAGE = re.compile(r"backtest-(\d{8}T\d{6}Z)-[0-9a-f]{12}", re.ASCII)
"""Names of pages: when the run was to begin, and its digest."""
_OPTIONS = ("beside", "log", "set", "knowledge")


def page_name(run_id: str, run_after: datetime, kind: str = "backtest") -> str:
    """The name of a run's page, the same in each try of it."""
    digest = sha256(run_id.encode()).hexdigest()[:12]
    return f"{kind}-{run_after.astimezone(UTC):%Y%m%dT%H%M%SZ}-{digest}"


def backtest_arguments(run: Run, page: str) -> tuple[str, ...]:
    """Arguments of `slicewise backtest`; its page goes to the file `page`.

    Requests are those of the param `hours` before the run, else from `start` to `end`. No request
    and no label that came after the run's own time counts.
    """
    model = str(run.params.get("model") or "").strip()
    if not model or model.startswith("-"):
        raise _refused("model", model, "a model of models.toml")
    arguments = [model]
    for name in _OPTIONS:
        if given := str(run.params.get(name) or "").strip():
            arguments.append(f"--{name}={given}")
    until = text_of_instant(run.run_after)
    start, end = (str(run.params.get(name) or "").strip() for name in ("start", "end"))
    if (hours := run.params.get("hours")) is not None:
        if start or end:
            raise _refused("hours", hours, "hours, or start and end, and not both")
        if not isinstance(hours, int) or isinstance(hours, bool) or hours < 1:
            raise _refused("hours", hours, "a whole number above 0")
        start = text_of_instant(run.run_after - timedelta(hours=hours))
    if start:
        arguments.append(f"--start={start}")
    labels = str(run.params.get("labels_until") or "").strip()
    for option, text in (("--end", end), ("--labels-until", labels)):
        arguments.append(f"{option}={until if _is_later(text or until, run.run_after) else text}")
    return (*arguments, "--json", f"--html={page}")


@dataclass(frozen=True)
class Backtested:
    """Outcome of a backtest in few figures, as lists and notes have it. verdict: of the model,
    beside another; empty without one."""

    run: str
    model: str
    beside: str
    requests: int
    measured: int
    verdict: str
    difference: float | None
    within: float | None
    worse_slices: int
    leaks: tuple[str, ...]

    @classmethod
    def of(cls, report: Mapping[str, Any], run: str) -> Backtested:
        """Figures of the report of `slicewise backtest --json`. run: the id of Airflow's run."""
        gain: Mapping[str, Any] = report.get("gain") or {}
        return cls(
            run,
            str(report["model"]),
            str(report.get("beside") or ""),
            int(report["requests"]),
            int(report["measured"]),
            str(gain.get("verdict", "")),
            gain.get("difference"),
            gain.get("within"),
            len(report.get("worse_slices") or ()),
            tuple(str(leak["feature"]) for leak in report.get("leaks") or ()),
        )

    @property
    def words(self) -> str:
        """The outcome in a sentence."""
        counts = f"{self.measured:,} of {self.requests:,} logged answers are measured"
        if not self.verdict:
            return f"{counts}."
        if self.verdict == "no difference":
            return f"{counts}: no difference to {self.beside} that they show."
        change = f", mean loss {self.difference:+.4g}" if self.difference is not None else ""
        within = f" ± {self.within:.4g}" if change and self.within is not None else ""
        return f"{counts}: {self.model} is **{self.verdict}** than {self.beside}{change}{within}."

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


MEASURES: Mapping[str, str] = {
    "auc": "area under the ROC curve",
    "average_precision": "average precision",
    "log_loss": "logarithmic loss",
    "brier": "Brier score",
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "mean_absolute_error": "mean absolute error",
    "root_mean_squared_error": "root of the mean squared error",
    "bias": "bias",
    "r2": "R²",
}
"""Measure -> its name for people, of those that notes have."""


def text_of(report: Mapping[str, Any], outcome: Backtested) -> str:
    """Text on a backtest in Markdown: the outcome, doubts, and measures of both models."""
    own, other = (_values(report.get(name)) for name in ("measures", "measures_of_a"))
    lines = [outcome.words]
    if outcome.leaks:
        lines.append(f"\n**It looks like a leak**: {', '.join(outcome.leaks[:5])}.")
    if outcome.worse_slices:
        lines.append(f"\nWorse beyond chance for {outcome.worse_slices} slices of the rows.")
    names = [name for name in MEASURES if own.get(name) is not None or other.get(name) is not None]
    if names:
        columns = ("measure", outcome.model, *((outcome.beside,) if outcome.beside else ()))
        lines += ["", _line(columns), _line(["---"] * len(columns))]
        for name in names:
            both = (own.get(name), *((other.get(name),) if outcome.beside else ()))
            lines.append(_line((MEASURES[name], *map(_figure, both))))
    return "\n".join(lines)


def _values(measures: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {} if measures is None else measures.get("values") or {}


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _line(cells: Any) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def text_of_instant(instant: datetime) -> str:
    """An instant as commands take it."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _is_later(text: str, instant: datetime) -> bool:
    """Tells whether a text is an instant that is not before this one."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return False
    return at.tzinfo is not None and at >= instant


def _refused(name: str, value: object, expected: str) -> BadRequest:
    return BadRequest(
        f"{name} = {value!r}",
        where="params",
        expected=expected,
        next_step="correct the parameter, and trigger the run again",
    )
