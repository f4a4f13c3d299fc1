"""An exact window is accumulated from its very events, each once, or said to lack some: never
answered short.

What was read of event lists is decoded at once, brought into the total order per entity, cut by
each window's bounds and rows, and accumulated and finished by the aggregates that slices are
combined by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from slicewise.aggregates import Finished
from slicewise.aggregates.kernel.events import Rows
from slicewise.codec import IDENTITY_BYTES, identity_time, score_of
from slicewise.codec.store_fields import fields as f
from slicewise.errors import CodecError
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading.exchange import Stored
from slicewise.reading.plan import Finisher, Interval, ReadMode
from slicewise.windows.bounds import EARLIEST_US

if TYPE_CHECKING:
    from slicewise.features.plan.unit import ListUnit, PlannedFeature

Int64 = npt.NDArray[np.int64]
APPLIED_OFFSET, LOW = f.APPLIED.prefix, f.LOW.form


class Span(NamedTuple):
    """Events of a window: those of [start, end), the latest `rows` of them (0: all). Their ages are
    counted from `instant_us`."""

    start_us: int
    end_us: int
    rows: int
    instant_us: int


@dataclass(frozen=True, eq=False)
class ListPlan:
    """One event list's part of a read."""

    unit: ListUnit
    features: tuple[PlannedFeature, ...]
    mode: ReadMode
    t_us: int
    spans: tuple[Span, ...]
    span_of: tuple[int, ...]
    """Per feature its span."""
    finishers: tuple[Finisher, ...]
    finisher_of: tuple[int, ...]
    """Per feature its finisher."""
    ranges: tuple[tuple[int, int, int], ...]
    """Ranges to fetch: (first score, last score, newest)."""
    token_head: bytes
    token_end: bytes

    @property
    def start_us(self) -> int | None:
        """The start of the earliest window that time bounds."""
        return min((span.start_us for span in self.spans if not span.rows), default=None)

    def bounds_of(self, feature: int) -> Interval:
        """Effective bounds of a feature, by its position."""
        span = self.spans[self.span_of[feature]]
        return span.start_us, span.end_us


def plan_list(
    unit: ListUnit, features: Sequence[PlannedFeature], mode: ReadMode, t_us: int
) -> ListPlan:
    """The plan of a list's features at t (microseconds UTC). No two instants share one."""
    numbers: dict[Span, int] = {}
    span_of = []
    finishers: dict[Finisher, int] = {}
    for planned in features:
        start, end = planned.window.bounds(mode, t_us, unit.slice_us)
        span = Span(start, end, planned.window.most_rows, end - planned.window.holds_end(mode))
        span_of.append(numbers.setdefault(span, len(numbers)))
    finisher_of = tuple(
        finishers.setdefault(Finisher(f.partial, f.aggregate), len(finishers)) for f in features
    )
    spans = tuple(numbers)
    bounds = {f.column: spans[i][:2] for f, i in zip(features, span_of, strict=True)}
    return ListPlan(
        unit,
        tuple(features),
        mode,
        t_us,
        spans,
        tuple(span_of),
        tuple(finishers),
        finisher_of,
        _ranges(spans),
        tokens.head(unit.storage_fingerprint, unit.definition_fingerprint, mode),
        tokens.bounds_bytes(bounds),
    )


def _ranges(spans: Sequence[Span]) -> tuple[tuple[int, int, int], ...]:
    """Ranges of time that do not meet, and per end of a rows window the newest rows: together all
    that any of the spans holds."""
    ranges: list[tuple[int, int, int]] = []
    for start, end, *_ in sorted(span for span in spans if not span.rows):
        if ranges and start <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end - 1), 0)
        else:
            ranges.append((start, end - 1, 0))
    most: dict[int, int] = {}
    for span in spans:
        if span.rows:
            most[span.end_us] = max(span.rows, most.get(span.end_us, 0))
    ranges += [(EARLIEST_US, end - 1, rows) for end, rows in most.items()]
    return tuple((score_of(first), score_of(last), newest) for first, last, newest in ranges)


class Short(NamedTuple):
    """A window of an entity that reaches what its list no longer has."""

    entity: int
    span: int
    low_us: int
    """Time of the newest event that was trimmed."""


@dataclass(frozen=True, eq=False)
class ListMerged:
    """Answer of one event list for the same entities."""

    plan: ListPlan
    entities: int
    finished: tuple[Finished, ...]
    """Per finisher of the plan: value of entity e in span s at e · spans + s."""
    base: tuple[OffsetVector, ...]
    """Per entity."""
    short: tuple[Short, ...]
    """Gaps; where there is one, this is no answer."""

    def column(self, feature: int) -> tuple[Finished, slice]:
        """The values among which a feature's stand, and where: one per entity."""
        plan = self.plan
        width = len(plan.spans)
        return self.finished[plan.finisher_of[feature]], slice(
            plan.span_of[feature], self.entities * width, width
        )

    def token(self, entity: int) -> str:
        """The token of the answer for an entity: what it contains."""
        return tokens.seal(self.plan.token_head, self.base[entity], {}, self.plan.token_end)


def merge_list(
    plan: ListPlan, stored: Sequence[Stored], entities: int, committed: OffsetVector
) -> ListMerged:
    """The answer for `entities` entities; one of which nothing is stored has no events.

    committed: of the same reply; of parts that bring claims of their own, those claims'. Raises
    CodecError for damaged members.
    """
    offset_vectors = [committed] * entities
    lows: dict[int, bytes] = {}
    members: list[bytes] = []
    owners: list[int] = []
    for part in stored:
        applied_offsets, low = _hash(part.hot)
        contained = committed
        if part.claims is not None:
            contained = part.claims.committed
            offset_vectors[part.entity] = offset_vectors[part.entity].join(
                part.claims.committed_of(part.partition)
            )
        beyond = {
            topic_partition: after
            for topic_partition, after in applied_offsets.items()
            if after > contained.get(topic_partition)
        }
        if beyond:
            offset_vectors[part.entity] = offset_vectors[part.entity].join(OffsetVector(beyond))
        if low is not None:
            lows[part.entity] = max(low, lows.get(part.entity, low))
        fresh = list(
            dict.fromkeys(member for member in chain.from_iterable(part.days) if member is not None)
        )
        members += fresh
        owners += [part.entity] * len(fresh)
    rows, owner, kept = _ordered(plan, members, owners)
    first, beyond_last = _cut(plan.spans, rows.time, owner, entities)
    short = tuple(
        _short(
            plan.spans, first, beyond_last, lows, [members[i] for i in kept] if lows else members
        )
    )
    finished = () if short else _finish(plan, rows, first, beyond_last)
    return ListMerged(plan, entities, finished, tuple(offset_vectors), short)


def _hash(flat: Sequence[bytes]) -> tuple[Mapping[TopicPartition, int], bytes | None]:
    """Per partition the first offset that its applied offset does not cover, and the low-water
    mark."""
    applied_offsets: dict[TopicPartition, int] = {}
    low = None
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        if name == LOW:
            low = value
            continue
        parts = name.split(b":")
        if not name.startswith(APPLIED_OFFSET) or len(parts) != 3:
            raise CodecError(f"a field of an event list that is none: {name[:80]!r}")
        applied_offsets[parts[1].decode("ascii"), int(parts[2])] = int(value) + 1
    return applied_offsets, low


def _ordered(
    plan: ListPlan, members: Sequence[bytes], owners: Sequence[int]
) -> tuple[Rows, Int64, list[int]]:
    """Events by entity and total order, their entities, and which members they were."""
    rows, owner = plan.unit.members.decode(members), np.array(owners, np.int64)
    order = np.lexsort(
        (rows.offset, rows.partition, rows.topic_lo, rows.topic_hi, rows.time, owner)
    ).astype(np.int64)
    return rows.take(order), owner[order], order.tolist()


def _cut(spans: Sequence[Span], time: Int64, owner: Int64, entities: int) -> tuple[Int64, Int64]:
    """Per entity and span (entity · spans + span) its range of positions."""
    starts, ends = (np.array([span[i] for span in spans], np.int64) for i in (0, 1))
    most = np.array([span.rows or len(time) for span in spans], np.int64)
    edges = np.searchsorted(owner, np.arange(entities + 1))
    first, beyond = (
        np.empty((entities, len(spans)), np.int64),
        np.empty((entities, len(spans)), np.int64),
    )
    for entity, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        own = time[low:high]
        beyond[entity] = low + np.searchsorted(own, ends)
        first[entity] = np.maximum(low + np.searchsorted(own, starts), beyond[entity] - most)
    return first.reshape(-1), np.maximum(beyond, first).reshape(-1)


def _short(
    spans: Sequence[Span],
    first: Int64,
    beyond: Int64,
    lows: Mapping[int, bytes],
    members: Sequence[bytes],
) -> list[Short]:
    """All events above the low-water mark are there: a window is whole if all that it holds lies
    above it."""
    shorts = []
    for entity, low in lows.items():
        for i, span in enumerate(spans):
            at = entity * len(spans) + i
            if span.rows and int(beyond[at] - first[at]) == span.rows:
                whole = members[int(first[at])][:IDENTITY_BYTES] > low
            else:
                whole = identity_time(low) < span.start_us
            if not whole:
                shorts.append(Short(entity, i, identity_time(low)))
    return shorts


def _finish(plan: ListPlan, rows: Rows, first: Int64, beyond: Int64) -> tuple[Finished, ...]:
    counts = beyond - first
    groups = np.repeat(np.arange(len(first), dtype=np.int64), counts)
    taken = np.arange(len(groups), dtype=np.int64) - np.repeat(
        np.cumsum(counts) - counts - first, counts
    )
    chosen, partials = rows.take(taken), plan.unit.layout.partials
    wanted = sorted({finisher.partial for finisher in plan.finishers})
    columns = {i: partials[i].accumulate_columns(chosen, groups, len(first)) for i in wanted}
    ends = np.tile(
        np.array([span.instant_us for span in plan.spans], np.int64), len(first) // len(plan.spans)
    )
    return tuple(
        finisher.aggregate.finish_columns_at(columns[finisher.partial], lambda: ends)
        for finisher in plan.finishers
    )
