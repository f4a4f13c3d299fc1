"""A run of Airflow alone decides which rows a version is trained on, and on which it is judged.

    rows to train on        |  hours  |  matured  |
    ------------------------+---------+-----------+--> the run's time
                            judged on             labels until

It is judged on requests later than all that it was trained on, whose labels had time to come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slicewise.errors import BadRequest
from slicewise.lifecycle.jobs import Run
from slicewise.lifecycle.models.backtests import text_of_instant

PAGE = re.compile(r"training-(\d{8}T\d{6}Z)-[0-9a-f]{12}", re.ASCII)
"""Names of pages: when the run was to begin, and its digest."""


@dataclass(frozen=True)
class Span:
    """Instants that a run trains and judges by. start: rows before it are trained on, and requests
    from it until `end` are judged."""

    start: datetime
    end: datetime
    until: datetime

    @classmethod
    def of(cls, run: Run, matured: timedelta) -> Span:
        """Span of a run. matured: time that labels are given. Raises BadRequest."""
        hours = run.params.get("hours")
        if not isinstance(hours, int) or isinstance(hours, bool) or hours < 1:
            raise BadRequest(
                f"hours = {hours!r}",
                where="params",
                expected="a whole number above 0",
                next_step="correct the parameter, and trigger the run again",
            )
        until = run.run_after.astimezone(UTC)
        end = until - matured
        return cls(end - timedelta(hours=hours), end, until)


def train_arguments(model: str, span: Span) -> tuple[str, ...]:
    """Arguments of `slicewise train`."""
    return (model, f"--until={text_of_instant(span.start)}", "--json")


def judging_run(run: Run, span: Span, version: str, live: str) -> Run:
    """The run as a backtest takes it: the version beside the live one, over the span."""
    params = {
        "model": version,
        "beside": live,
        "start": text_of_instant(span.start),
        "end": text_of_instant(span.end),
        "labels_until": text_of_instant(span.until),
        "set": run.params.get("set"),
        "log": run.params.get("log"),
    }
    return Run(run.run_type, run.partition_key, run.run_after, params)


def promote_arguments(version: str, live: str, by: str) -> tuple[str, ...]:
    """Arguments of `slicewise promote-model`: refused where another version is live by now than the
    one that it was judged beside. live: empty where none was."""
    return (version, f"--by={by}", f"--instead-of={live or 'none'}", "--json")


def is_due(fired: datetime, trained: datetime | None, begun: datetime | None) -> bool:
    """Tells whether a model is trained by its schedule now. fired: the schedule's last instant;
    trained: when its newest version was; begun: when its newest run was queued. One run for an
    instant, also where it failed."""
    return all(at is None or at < fired for at in (trained, begun))
