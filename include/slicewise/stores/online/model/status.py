"""A driver's status of one source is one frozen value: its driver shows it, every reader parses it.

Its JSON stands in the store (`sw:status:<driver>:<source>`) and in the driver's heartbeat file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slicewise.errors import BadRequest

State = Literal["running", "stopped", "refused", "failed"]
OUTCOMES = ("rows", "written", "known", "expired", "skipped", "reconnects")
"""Counts of the real-time lane's writers."""
_STORED = {"leaderboards_skipped": "boards_skipped"}
"""Field of a view -> its name in JSON, where that is another."""


@dataclass(frozen=True)
class ViewStatus:
    """Figures of a view since its emission last began; None: nothing was published since."""

    instant_us: int
    windows: int = 0
    corrections: int = 0
    leaderboards_skipped: int = 0
    partials: int | None = None
    late_events: int | None = None
    too_late_events: int | None = None
    behind_ms: int | None = None

    def to_json(self) -> dict[str, int]:
        figures = {_STORED.get(name, name): value for name, value in vars(self).items()}
        return {name: value for name, value in figures.items() if value is not None}

    @staticmethod
    def of_json(raw: Mapping[str, Any]) -> ViewStatus:
        names = {_STORED.get(name, name): name for name in ViewStatus.__dataclass_fields__}
        given = {name for name in names if raw.get(name) is not None}
        return ViewStatus(**{names[name]: int(raw[name]) for name in given})


@dataclass(frozen=True)
class Totals:
    """Counts since the driver began that metrics alone show: the JSON has none of them."""

    batches: int = 0
    batch_s: float = 0.0
    windows: Mapping[str, int] = field(default_factory=dict)
    """View -> rows published at windows' ends."""
    corrections: Mapping[str, int] = field(default_factory=dict)
    leaderboards_skipped: Mapping[str, int] = field(default_factory=dict)
    """Leaderboard -> its states that were left to newer ones."""


@dataclass(frozen=True)
class Status:
    """Status of one source by a driver; counts are since the driver began."""

    source: str
    state: State
    heartbeat_us: int
    """Time at which it was made, in microseconds UTC."""
    progress_us: int | None = None
    """Time at which a batch was last applied or no event was waiting, by the driver's clock as
    heartbeat_us; None: not said."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """Partition -> events in the topic that are not yet applied."""
    records: int = 0
    events_per_s: float = 0.0
    """Rates, times and freshness are those of the last minute; None: nothing was applied in it."""
    batches_per_s: float = 0.0
    batch_ms_p50: float | None = None
    batch_ms_p99: float | None = None
    freshness_p50_ms: float | None = None
    """Kafka timestamp to visible."""
    freshness_p99_ms: float | None = None
    bad: Mapping[str, int] = field(default_factory=dict)
    """Reason -> bad records."""
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Storage unit -> reason -> rows."""
    restarts: int = 0
    lost: int | None = None
    """Events that the store had applied and lost, and that are to be applied again; None: not of
    this driver's."""
    last_error: str | None = None
    realtime: str | None = None
    """Setting of the stream: whether it knows of the real-time lane, "on" or "off"; None: not
    said."""
    waiting: str | None = None
    """Reason for which the real-time lane has not begun yet."""
    outcomes: Mapping[str, int] | None = None
    """Counts of the real-time lane's writers, by `OUTCOMES`; None: of another lane."""
    views: Mapping[str, ViewStatus] | None = None
    """Views of an emission; None: of another driver."""
    totals: Totals = Totals()

    @property
    def lag_events(self) -> int:
        """Events in the topic that are not yet applied, over all partitions."""
        return sum(self.lag.values())

    @property
    def stalled_us(self) -> int:
        """The time that events have been waiting without any being applied; 0 where none wait."""
        if self.progress_us is None or self.lag_events <= 0:
            return 0
        return max(0, self.heartbeat_us - self.progress_us)

    def to_json(self) -> dict[str, Any]:
        """The status as plain values: those that all drivers write, then a lane's own."""
        figures = {name: value for name, value in vars(self).items() if name not in _OWN}
        figures["lost"] = self.lost or 0
        if self.realtime is not None:
            figures["tail"] = self.realtime
        if self.outcomes is not None:
            figures |= {"waiting": self.waiting, **self.outcomes}
        if self.views is not None:
            figures["views"] = {name: view.to_json() for name, view in self.views.items()}
        return figures

    @staticmethod
    def parse(source: str, text: str) -> Status:
        """The status that a driver wrote as JSON. Raises BadRequest when it is none."""
        try:
            raw = {"state": "running"} | json.loads(text)
            views = {name: ViewStatus.of_json(view) for name, view in raw.get("views", {}).items()}
            return Status(
                source=source,
                outcomes={n: int(raw.get(n, 0)) for n in OUTCOMES} if "rows" in raw else None,
                realtime=raw.get("tail"),
                views=views if "views" in raw else None,
                **{
                    name: read(raw[name])
                    for name, read in _READ.items()
                    if raw.get(name) is not None
                },
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise BadRequest(
                f"the status of source {source!r} cannot be read: {error}",
                expected=(
                    "JSON with state, heartbeat_us, lag, events_per_s, freshness_p50_ms and _p99_ms"
                ),
                next_step="is the stream driver of another version than this?",
            ) from error


def _state(text: str) -> str:
    if text not in ("running", "stopped", "refused", "failed"):
        raise ValueError(f"state {text!r}")
    return text


def _lag(raw: Any) -> dict[str, int]:
    # a number is that of all partitions together
    return {p: int(n) for p, n in (raw if isinstance(raw, dict) else {"": raw}).items()}


_OWN = ("realtime", "waiting", "outcomes", "views", "totals")
_READ: Mapping[str, Callable[[Any], Any]] = (
    dict.fromkeys(("heartbeat_us", "progress_us", "records", "restarts", "lost"), int)
    | dict.fromkeys(("events_per_s", "batches_per_s", "batch_ms_p50", "batch_ms_p99"), float)
    | dict.fromkeys(("freshness_p50_ms", "freshness_p99_ms"), float)
    | dict.fromkeys(("bad", "left_out"), dict)
    | dict.fromkeys(("last_error", "waiting"), str)
    | {"state": _state, "lag": _lag}
)
"""Name in the JSON and here -> how it is read."""
