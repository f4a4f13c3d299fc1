"""A unit's ticks and corrections at an instant follow from the events before it and those since the
last one.

The value that was published last of a window is that of the state at the last instant: so old
values, and whether one changed, are known without being kept, and are the same after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Finished
from slicewise.aggregates.kernel.events import Rows
from slicewise.emission.entities import NOBODY, Int64, numbered, same
from slicewise.emission.state import Chunk, WindowState
from slicewise.emission.ticks import Correction, Errors, Tick
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.bounds import floor
from slicewise.windows.window import Window


@dataclass(frozen=True, eq=False)
class _Shown:
    """Entities with events in a window, and their values as they were published last."""

    entities: pa.Table
    values: tuple[pa.Array, ...]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Rows of a chunk, each once per window that it lies in."""

    row: Int64
    end: Int64


@dataclass
class UnitEmission:
    """Emission of one unit. columns: of the features that are published."""

    unit: StorageUnit
    columns: frozenset[str]
    corrections_us: int
    late_rows: int = 0
    """Events since the start that came after a window of theirs was published, and made it
    corrected."""
    too_late: int = 0
    """Events whose windows are no longer corrected."""
    state: WindowState = field(init=False)
    _windows: dict[Window, tuple[PlannedFeature, ...]] = field(init=False)
    _shown: dict[Window, _Shown | None] = field(init=False)
    _since: int = 0
    _last: int = 0

    def __post_init__(self) -> None:
        self.state = WindowState(self.unit, self.columns)
        windows: dict[Window, tuple[PlannedFeature, ...]] = {}
        for feature in self.state.features:
            windows[feature.window] = (*windows.get(feature.window, ()), feature)
        self._windows = windows
        self._shown = dict.fromkeys(windows)

    @property
    def steps(self) -> tuple[int, ...]:
        """Distances between the ends of its windows."""
        return tuple(window.ends_every(self.unit.slice_us) for window in self._windows)

    @property
    def reach_us(self) -> int:
        """The distance before an instant at which the state must begin."""
        return max(window.length_us for window in self._windows) + self.corrections_us

    @property
    def idle(self) -> bool:
        """Nothing is held: an instant without events publishes nothing."""
        return not self.state.chunks and all(shown is None for shown in self._shown.values())

    def remember(self, rows: Rows, entities: pa.Table) -> None:
        """Events that the instant of `begin` knew already."""
        if len(rows):
            self.state.add(self.state.accumulate(rows, self._named(entities, len(rows))))

    def begin(self, since_us: int, last_us: int) -> None:
        """After all that is remembered: publication began at `since_us` and has come to
        `last_us`."""
        self._since, self._last = since_us, last_us
        self._forget(last_us)
        for window in self._windows:
            end = floor(last_us, window.ends_every(self.unit.slice_us))
            if end > since_us:
                self._tick(window, end, OffsetVector())

    def advance(
        self, instant_us: int, rows: Rows, entities: pa.Table, offset_vector: OffsetVector
    ) -> Iterator[Tick | Correction]:
        """Publishes this instant, given the events since the last one, in the order of their
        identities."""
        fresh = self.state.accumulate(rows, self._named(entities, len(rows))) if len(rows) else None
        if fresh is not None:
            self._count_late(rows, instant_us)
            for window in self._windows:
                corrected = self._correction(window, fresh, rows, instant_us, offset_vector)
                if corrected is not None:
                    yield corrected
            self.state.add(fresh)
        for window in self._windows:
            if instant_us % window.ends_every(self.unit.slice_us) == 0:
                tick = self._tick(window, instant_us, offset_vector)
                if tick is not None:
                    yield tick
        self._last = instant_us
        self._forget(instant_us)

    # ------------------------------------------------------------ ends of windows
    def _tick(self, window: Window, end_us: int, offset_vector: OffsetVector) -> Tick | None:
        features, before = self._windows[window], self._shown[window]
        start_us, slice_us = end_us - window.length_us, self.unit.slice_us
        chunk = self.state.between(start_us // slice_us, end_us // slice_us)
        tables = [part.entities for part in (chunk, before) if part is not None]
        if not tables:
            return None
        n_stored = 0 if chunk is None else len(chunk)
        entities = pa.concat_tables(tables).combine_chunks()
        codes, first = numbered(entities)
        n = len(first)
        finished = self._values(features, chunk, codes[:n_stored], np.full(n, end_us, np.int64))
        none = self._values(features, None, np.empty(0, np.int64), np.array([end_us], np.int64))
        changed = np.zeros(n, np.bool_)
        shown_rows = np.zeros(n, np.int64)
        if before is not None:
            shown_rows[codes[n_stored:]] = np.arange(1, before.entities.num_rows + 1)
        for i, (now, empty) in enumerate(zip(finished, none, strict=True)):
            shown = (
                empty.values
                if before is None
                else pa.concat_arrays([empty.values, before.values[i]])
            )
            changed |= ~same(now.values, shown.take(pa.array(shown_rows)))
        present = np.bincount(codes[:n_stored], minlength=n) > 0
        entities = entities.take(pa.array(first))
        values = tuple(result.values for result in finished)
        self._shown[window] = (
            _chosen(entities, values, np.flatnonzero(present)) if present.any() else None
        )
        return Tick(
            view=self.unit.view,
            window=window,
            start_us=start_us,
            end_us=end_us,
            entities=_public(entities),
            values=_table(features, values),
            changed=changed,
            errors=_errors(features, finished),
            offset_vector=offset_vector,
        )

    def _values(
        self, features: tuple[PlannedFeature, ...], chunk: Chunk | None, groups: Int64, ends: Int64
    ) -> tuple[Finished, ...]:
        return self.state.finish(features, self.state.combine(chunk, groups, len(ends)), ends)

    # ------------------------------------------------------------ late events
    def _correction(
        self, window: Window, fresh: Chunk, rows: Rows, instant_us: int, offset_vector: OffsetVector
    ) -> Correction | None:
        late = self._published(window, fresh.number, instant_us)
        if not len(late.row):
            return None
        features, slice_us = self._windows[window], self.unit.slice_us
        step = window.ends_every(slice_us)
        # whoever holds the last value of a window without a record for the next must hear that the
        # next is another
        low = int(late.end.min()) - window.length_us
        high = min(int(late.end.max()) + step, floor(self._last, step))
        stored = self.state.between(low // slice_us, high // slice_us)
        theirs = np.unique(late.row)
        tables = [
            fresh.entities.take(pa.array(theirs)),
            *(() if stored is None else (stored.entities,)),
        ]
        codes, first = numbered(pa.concat_tables(tables).combine_chunks())
        step = window.ends_every(slice_us)

        first_end = int(late.end.min())
        ends_per_entity = (high - first_end) // step + 1

        def key(code: Int64, end: Int64) -> Int64:
            return code * ends_per_entity + (end - first_end) // step

        own = codes[: len(theirs)]
        keys = key(own[np.searchsorted(theirs, late.row)], late.end)
        wanted = np.unique(np.concatenate([keys, keys[late.end < high] + 1]))
        groups, n = np.searchsorted(wanted, keys).astype(np.int64), len(wanted)
        ends = first_end + wanted % ends_per_entity * step
        present = np.zeros(n, np.bool_)
        present[groups] = True
        before = self.state.combine(None, np.empty(0, np.int64), n)
        if stored is not None:
            untouched = np.flatnonzero(codes[len(theirs) :] <= own.max())
            pairs = self._published(window, stored.number[untouched], instant_us)
            published_keys = key(codes[len(theirs) :][untouched][pairs.row], pairs.end)
            near = np.minimum(np.searchsorted(wanted, published_keys), n - 1)
            # an end beyond the wanted ones would have the key of another entity's window
            inside = np.flatnonzero(
                (wanted[near] == published_keys) & (pairs.end >= first_end) & (pairs.end <= high)
            )
            before = self.state.combine(
                stored.take(untouched[pairs.row[inside]]), near[inside].astype(np.int64), n
            )
            present[near[inside]] = True
        added = tuple(partial.take(late.row) for partial in fresh.partials)
        after = self.state.joined(
            [before, added], np.concatenate([np.arange(n, dtype=np.int64), groups]), n
        )
        old, new = (
            self.state.finish(features, before, ends),
            self.state.finish(features, after, ends),
        )
        who = tables[0].take(pa.array(first[wanted // ends_per_entity]))
        values = tuple(result.values for result in new)
        self._patch(
            window, who, values, np.flatnonzero(present & (ends == floor(self._last, step)))
        )
        cause = np.full(n, np.iinfo(np.int64).max)
        np.minimum.at(cause, groups, fresh.first[late.row])
        kept = _corrected(wanted, ends_per_entity, old, new, cause)
        if not len(kept):
            return None
        taken = pa.array(kept)
        return Correction(
            view=self.unit.view,
            window=window,
            ends_us=ends[kept],
            entities=_public(who.take(taken)),
            old=_table(features, tuple(result.values.take(taken) for result in old)),
            values=_table(features, tuple(column.take(taken) for column in values)),
            errors=_errors(features, new, kept),
            causes=[_identity(rows, int(i)) for i in cause[kept]],
            offset_vector=offset_vector,
        )

    def _published(self, window: Window, number: Int64, instant_us: int) -> _Pairs:
        """Pairs the rows with the published windows that they lie in, and that are still
        corrected."""
        step = window.ends_every(self.unit.slice_us)
        times = number * self.unit.slice_us
        earliest = floor(self._corrected_from(instant_us), step) + step
        first = np.maximum(times // step * step + step, earliest)
        last = np.minimum((times + window.length_us) // step * step, floor(self._last, step))
        count = np.maximum(0, (last - first) // step + 1)
        row = np.repeat(np.arange(len(number), dtype=np.int64), count)
        nth = np.arange(len(row), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
        return _Pairs(row, first[row] + nth * step)

    def _patch(
        self, window: Window, who: pa.Table, values: tuple[pa.Array, ...], newest: Int64
    ) -> None:
        """Replaces these rows in what was published last of the newest window."""
        if not len(newest):
            return
        mended, before = _chosen(who, values, newest), self._shown[window]
        if before is not None:
            codes, _ = numbered(
                pa.concat_tables([mended.entities, before.entities]).combine_chunks()
            )
            others = np.flatnonzero(codes[len(newest) :] >= len(newest))
            rest = _chosen(before.entities, before.values, others)
            pairs = zip(mended.values, rest.values, strict=True)
            mended = _Shown(
                pa.concat_tables([mended.entities, rest.entities]).combine_chunks(),
                tuple(pa.concat_arrays(list(pair)) for pair in pairs),
            )
        self._shown[window] = mended

    def _corrected_from(self, instant_us: int) -> int:
        return max(self._since, instant_us - self.corrections_us)

    def _count_late(self, rows: Rows, instant_us: int) -> None:
        longest = max(window.length_us for window in self._windows)
        self.too_late += int(
            np.count_nonzero(rows.time + longest <= self._corrected_from(instant_us))
        )
        self.late_rows += int(np.count_nonzero(rows.time < floor(self._last, min(self.steps))))

    def _forget(self, instant_us: int) -> None:
        self.state.forget((instant_us - self.reach_us) // self.unit.slice_us)

    def _named(self, entities: pa.Table, n: int) -> pa.Table:
        return entities if self.unit.entity else pa.table({NOBODY: np.zeros(n, np.int8)})


def _corrected(
    wanted: Int64,
    ends_per_entity: int,
    old: tuple[Finished, ...],
    new: tuple[Finished, ...],
    cause: Int64,
) -> Int64:
    """Pairs, ascending by entity and window, that are other than before, or follow one that is and
    differ from it.

    cause is completed: what only follows has that of the window before.
    """
    n = len(wanted)
    changed, like_before = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    for was, now in zip(old, new, strict=True):
        changed |= ~same(was.values, now.values)
        like_before[1:] &= same(now.values[1:], now.values[:-1])
    follows = np.zeros(n, np.bool_)
    follows[1:] = (
        (wanted[1:] == wanted[:-1] + 1)
        & (wanted[1:] % ends_per_entity > 0)
        & changed[:-1]
        & ~like_before[1:]
    )
    only = np.flatnonzero(follows & (cause == np.iinfo(np.int64).max))
    cause[only] = cause[only - 1]
    return np.flatnonzero(changed | follows).astype(np.int64)


def _chosen(entities: pa.Table, values: tuple[pa.Array, ...], rows: Int64) -> _Shown:
    taken = pa.array(rows)
    return _Shown(entities.take(taken), tuple(column.take(taken) for column in values))


def _public(entities: pa.Table) -> pa.Table:
    return entities.drop_columns([NOBODY]) if NOBODY in entities.column_names else entities


def _table(features: tuple[PlannedFeature, ...], values: tuple[pa.Array, ...]) -> pa.Table:
    return pa.table(
        {feature.column: value for feature, value in zip(features, values, strict=True)}
    )


def _errors(
    features: tuple[PlannedFeature, ...], finished: tuple[Finished, ...], rows: Int64 | None = None
) -> Errors:
    errors: dict[str, dict[int, str]] = {}
    for feature, result in zip(features, finished, strict=True):
        if result.errors:
            at = (
                {row: row for row in result.errors}
                if rows is None
                else {int(r): i for i, r in enumerate(rows)}
            )
            errors[feature.column] = {
                at[row]: code for row, code in result.errors.items() if row in at
            }
    return errors


def _identity(rows: Rows, i: int) -> tuple[str, int, int]:
    topic = f"{int(rows.topic_hi[i]):016x}{int(rows.topic_lo[i]):016x}"
    return topic, int(rows.partition[i]), int(rows.offset[i])
