"""Typed answers: values, bounds, tokens, freshness and flags, the same in process and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Scalar = str | int | float | bool | None
Entity = dict[str, Scalar | list[Scalar]]
"""Entity columns, and what is asked for: a value or a list of values."""
Interval = tuple[int, int]


@dataclass(frozen=True)
class EntityAnswer:
    """Values of one entity, in the order of the answer's features."""

    entity: Entity
    values: tuple[Any, ...]
    token: str
    """Tokens of the units that were read, joined; "" where nothing was read (flag `default`), or
    none was asked for."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Feature -> error code, for values that are null because of an error (`overflow`)."""
    bounds: Mapping[str, Interval] = field(default_factory=dict)
    """Feature -> effective (start_us, end_us) of this entity's own session; empty at its end where
    none is open."""
    no_data: tuple[str, ...] = ()
    """Views of which the read found nothing of this entity: it was never seen, or nothing of it is
    kept any more. Of a view that is not named, events are kept, if not in these windows."""


@dataclass(frozen=True)
class SourceFreshness:
    """Currentness of a source's committed offsets, as far as this process knows."""

    source: str
    ledger_advanced_us: int | None
    """Store's time at which this process last saw the committed offsets move; None: not since it
    started."""
    lag_events: int | None
    """Events in the log that are not applied yet, as the stream last said; None: it said
    nothing."""
    heartbeat_us: int | None
    """Time of the stream's last word."""
    pending_events: int = 0
    """Events in the answer that the committed offsets do not hold yet: of the pending events, each
    counted once per view that has it."""
    pending_newest_us: int | None = None
    """Event time of the latest of them."""


@dataclass(frozen=True)
class Answer:
    """Features of some entities at one time."""

    features: tuple[str, ...]
    mode: str
    t_us: int
    """The serving clock (live) or the `at` that was asked for."""
    bounds: Mapping[str, Interval]
    """Feature -> effective (start_us, end_us), half-open; of a session those within which it was
    looked for."""
    results: tuple[EntityAnswer, ...]
    freshness: tuple[SourceFreshness, ...] = ()
    flags: tuple[str, ...] = ()
    """"offline": from the archive; "stale": last known values, of `t_us`; "default": declared
    defaults; "overflow": see errors; "incomplete": see incomplete; "clock_off": the service's
    present is not the store's."""
    incomplete: tuple[str, ...] = ()
    """Features whose windows may lack events that the log lost before they were archived; a person
    accepted it."""
    tokens: bool = True
    """Tells whether the API writes the tokens."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dict per entity: its columns and its features."""
        for result in self.results:
            yield {**result.entity, **dict(zip(self.features, result.values, strict=True))}

    def values(self, index: int = 0) -> dict[str, Any]:
        """Feature -> value of one entity."""
        return dict(zip(self.features, self.results[index].values, strict=True))

    def bounds_of(self, index: int = 0) -> dict[str, Interval]:
        """Feature -> effective bounds of one entity, its own sessions' included."""
        return {**self.bounds, **self.results[index].bounds}


@dataclass(frozen=True)
class LeaderboardRow:
    """An entity on a leaderboard; rank 1 is the best."""

    rank: int
    entity: Mapping[str, Any]
    value: Any


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard as it stands, for the window [start_us, end_us); times in microseconds UTC, now
    by the store's clock.

    more: whether entities beyond these rows have a value too. flags: "missing" (nobody made a
    leaderboard lately, there are no rows), "stale" (its window ended more than two periods ago),
    "short" (fewer rows than could be known).
    """

    name: str
    feature: str
    k: int
    every_us: int
    now_us: int
    start_us: int | None
    end_us: int | None
    written_us: int | None
    rows: tuple[LeaderboardRow, ...]
    more: bool
    cover: Mapping[str, Mapping[int, int]]
    """Topic id -> partition -> first offset that is not in it."""
    flags: tuple[str, ...]

    @property
    def age_us(self) -> int | None:
        """Since the end of its window."""
        return None if self.end_us is None else self.now_us - self.end_us


Offsets = Mapping[str, Mapping[int, int]]
"""Topic id -> partition -> first offset that is not contained."""
OffsetRanges = Mapping[str, Mapping[int, Interval]]
"""Topic id -> partition -> first and last offset."""


@dataclass(frozen=True)
class Segment:
    """A part of a window that the plan reads as one."""

    start_us: int | None
    """None: since the first event (`lifetime_total`, and event lists of rows)."""
    end_us: int
    where: str
    """"lifetime_total", "five_day_total", "day_total", "hour" (the total of a compacted hour),
    "minutes" or "slices" (rows of a compacted hour), "live" (slices that no compacted hour has
    yet), "pending" (events of the real-time lane that are not applied yet), "events" (an event
    list)."""
    state: str
    """"counted"; "empty": the store has nothing there; "contained": live slices that a compacted
    hour or a total has already, so that they do not count again."""
    slices: int | None = None
    """Rows of slices or minutes in it, where they stand singly."""
    events: int | None = None
    """Events in it, where they stand singly (`pending`, `events`)."""
    archive_versions: tuple[int, ...] = ()
    """Archive versions by which its hours were compacted; 0 is the backfill up to the view's start
    offsets."""
    offsets: OffsetRanges = field(default_factory=dict)
    """First and last offset of its events, where the store has them (`live`, `pending`)."""
    late: bool = False
    """Tells whether its events came later than the archive version by which their hour was
    compacted."""
    partition: int | None = None
    """Partition of the log whose events it has, of a view that is stored per partition."""


@dataclass(frozen=True)
class ExplainedWindow:
    """A window of a view, [start, end), and all that was read for it."""

    start_us: int | None
    """None: since the first event."""
    end_us: int
    resolution: str
    """Length to multiples of which its start is cut."""
    segments: tuple[Segment, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """State -> number of segments that are not among these, where a window has too many to show;
    those of `late` ones under "late"."""


@dataclass(frozen=True)
class ExplainedFeature:
    """A feature of a view."""

    feature: str
    value: Any
    window: int
    """Place of its window among those of the view."""


@dataclass(frozen=True)
class ArchiveVersion:
    """Content of the compacted hours of one archive version."""

    offsets: Offsets
    beyond_committed: bool
    """Tells whether it contains events that the stream had not committed yet."""


@dataclass(frozen=True)
class ExplainedView:
    """A storage unit of the answer: a view that is stored in two has two."""

    view: str
    unit: str
    """Storage fingerprint."""
    source: str
    stored: str
    """"slices" or "events"."""
    slice: str
    """Length of a slice; "" of events."""
    token: str
    features: tuple[ExplainedFeature, ...]
    windows: tuple[ExplainedWindow, ...]
    pending_events: int
    """Events in the answer that are not applied yet."""
    pending_left: int
    """Offsets of pending events that another run of the store's server had, and that do not
    count."""
    contained: Offsets
    """Base of the token: per partition the first offset that the answer does not contain, but for
    hours that are compacted beyond it."""
    committed: Offsets
    """Offsets that the stream had committed, as the store said with the data."""
    applied: Offsets
    """Offsets that were applied to this entity's own data: beyond its latest event."""
    start: Offsets
    """Start offsets: what lies below came by a backfill."""
    compacted_beyond: Mapping[int, Offsets] = field(default_factory=dict)
    """Start of an hour in microseconds UTC -> what its compaction contains beyond the base."""
    archive_versions: Mapping[int, ArchiveVersion] = field(default_factory=dict)
    """Archive versions of the segments; the newest, where they name too many to show."""
    archive_versions_left: int = 0
    """Number of archive versions of the segments that are not among these."""


@dataclass(frozen=True)
class Explanation:
    """One entity's answer, and what it was made of."""

    answer: Answer
    views: tuple[ExplainedView, ...]
