"""A leaderboard is made of one tick and written with it; what late events change is said before it
is remembered.

The sink of emission that keeps leaderboards. Replays give equal bytes: leaderboards by the order
under which they are written, corrections because what they start from is remembered only after they
stand in their topic. While the emission catches up, leaderboards that would be stale when they are
written are skipped for the newest of them.
"""

from __future__ import annotations

import decimal
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slicewise import log
from slicewise.clock import Clock
from slicewise.codec.leaderboards import LeaderboardRow, StoredLeaderboard
from slicewise.emission.ranking import RankedRow, RankedRows, corrected, of_no_events, top
from slicewise.emission.ticks import Correction, Tick
from slicewise.errors import StoreUnavailable
from slicewise.features.plan.deployment import Deployment, PlannedLeaderboard
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.keys import entity_tags
from slicewise.stores.online.operations.leaderboards import (
    PERIODS,
    PublishLeaderboard,
    ReadLeaderboard,
    ReadRememberedLeaderboard,
    RememberLeaderboards,
)
from slicewise.stores.online.port import OnlineStore
from slicewise.windows.window import Window

RESERVE = 4
"""Rows that are remembered of a past leaderboard, for each that it shows: late events may take rows
off a leaderboard."""
SPARE = 40
MOST_REMEMBERED = 1_000
MAX_EXTRA_US = 30_000_000
"""Longest time that a leaderboard that is late when it is written stands beyond others."""
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class Corrections(Protocol):
    """Receiver of corrections."""

    def append(self, topic: str, key: bytes, value: bytes) -> None: ...
    def flush(self) -> None:
        """Returns when all that was handed over stands. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True)
class Ranked:
    """A leaderboard with the unit and the feature that it ranks by."""

    leaderboard: PlannedLeaderboard
    unit: StorageUnit
    feature: PlannedFeature
    nothing: object
    """The value of an entity without events."""

    @property
    def remembered(self) -> int:
        """Rows that corrections start from."""
        return max(self.leaderboard.k, min(MOST_REMEMBERED, RESERVE * self.leaderboard.k + SPARE))

    def made(
        self, ranked: RankedRows, window: tuple[int, int], offset_vector: OffsetVector, k: int
    ) -> StoredLeaderboard:
        """The leaderboard of these rows."""
        rows = tuple(ranked_row.row for ranked_row in ranked.rows[:k])
        more = ranked.more or len(ranked.rows) > k
        return StoredLeaderboard(
            self.leaderboard.fingerprint, *window, offset_vector, self.unit.entity, rows, more
        )

    def ranked_rows(self, leaderboard: StoredLeaderboard) -> RankedRows:
        """The rows of a leaderboard, with their ranks."""
        return RankedRows(
            tuple(RankedRow(self._rank(row), row) for row in leaderboard.rows), leaderboard.more
        )

    def _rank(self, row: LeaderboardRow) -> tuple[Any, bytes]:
        value = decimal.Decimal(row.value) if isinstance(row.value, str) else row.value
        return -value, self.tag(row)

    def tag(self, row: LeaderboardRow) -> bytes:
        """The bytes that decide between equal values. A date and an instant are written in keys as
        in leaderboards."""
        return entity_tags(self.unit.entity, [[value] for value in row.key])[0]


def ranked(deployment: Deployment) -> dict[tuple[str, Window], list[Ranked]]:
    """View and window -> the leaderboards that its ticks make."""
    by_window: dict[tuple[str, Window], list[Ranked]] = {}
    for leaderboard in deployment.leaderboards:
        unit, feature = deployment.resolve(leaderboard.ref)
        ranking = Ranked(leaderboard, unit, feature, of_no_events(feature.aggregate))
        by_window.setdefault((unit.view, feature.window), []).append(ranking)
    return by_window


@dataclass
class LeaderboardSink:
    """Leaderboards of one deployment. Used by one thread.

    open_store: opens a connection that holds the deployment's deployment version; a broken one is
    left and another opened with the next tick: a leaderboard that could not be written is made anew
    within its period.
    """

    deployment: Deployment
    deployment_version: int
    open_store: Callable[[], OnlineStore]
    clock: Clock
    corrections: Corrections | None = None
    written: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Leaderboard -> how many of its states were never shown: they were stale, and others newer,
    before they were written."""
    failures: int = 0
    corrected: int = 0
    uncorrected: int = 0
    """Past leaderboards that late events changed and nothing was remembered of."""
    _store: OnlineStore | None = None
    _past: dict[tuple[str, int], StoredLeaderboard] = field(default_factory=dict)
    """Boards to be remembered once the corrections before them stand."""
    _late: dict[str, tuple[Ranked, Tick]] = field(default_factory=dict)
    """Leaderboard -> its newest tick, where that came too late to be shown unless nothing newer
    follows."""
    _newest: dict[str, int] = field(default_factory=dict)
    """Leaderboard -> the window end that was shown last."""
    _ranked: Mapping[tuple[str, Window], Sequence[Ranked]] = field(init=False)

    def __post_init__(self) -> None:
        self._ranked = ranked(self.deployment)
        if self.corrections is None and any(
            leaderboard.topic for leaderboard in self.deployment.leaderboards
        ):
            raise ValueError("corrections are declared, and there is nowhere for them to go")

    def publish(self, tick: Tick) -> None:
        """Writes the leaderboards of this window end, or where it is long past leaves them to newer
        ones until `flush`."""
        late = self._late_us(tick.end_us)
        for entry in self._ranked.get((tick.view, tick.window), ()):
            if tick.end_us % entry.leaderboard.every_us:
                continue
            if self._late.pop(entry.leaderboard.name, None) is not None:
                self.skipped[entry.leaderboard.name] += 1
            if late > PERIODS * entry.leaderboard.every_us:
                self._late[entry.leaderboard.name] = entry, tick
            else:
                self._show(entry, tick)

    def _late_us(self, end_us: int) -> int:
        return self.clock.now_us() - end_us

    def _show(self, entry: Ranked, tick: Tick) -> None:
        keeps = entry.remembered if entry.leaderboard.topic else entry.leaderboard.k
        values = tick.values.column(entry.feature.column).combine_chunks()
        leaders = top(entry.unit.entity, tick.entities, values, entry.nothing, keeps)
        window = (tick.start_us, tick.end_us)
        past = (
            entry.made(leaders, window, tick.offset_vector, keeps)
            if entry.leaderboard.topic
            else None
        )
        self._newest[entry.leaderboard.name] = tick.end_us
        if past is not None:
            self._past[entry.leaderboard.name, tick.end_us] = past
        self._put(entry, entry.made(leaders, window, tick.offset_vector, entry.leaderboard.k), past)

    def _show_late(self, name: str) -> None:
        entry, tick = self._late.pop(name)
        self._show(entry, tick)

    def correct(self, correction: Correction) -> None:
        """Says which past leaderboards these late events change, and writes the one that stands."""
        for entry in self._ranked.get((correction.view, correction.window), ()):
            if entry.leaderboard.topic is None:
                continue
            ends = np.unique(correction.ends_us).tolist()
            if (
                entry.leaderboard.name in self._late
                and self._late[entry.leaderboard.name][1].end_us in ends
            ):
                # as it was before these events: they correct it
                self._show_late(entry.leaderboard.name)
            ends = [end_us for end_us in ends if end_us % entry.leaderboard.every_us == 0]
            unknown = [end_us for end_us in ends if not self._correct(entry, correction, end_us)]
            if unknown:
                self.uncorrected += len(unknown)
                first_us, last_us = unknown[0], unknown[-1]
                log.warning(
                    "leaderboards_not_corrected",
                    leaderboard=entry.leaderboard.name,
                    first_us=first_us,
                    last_us=last_us,
                )

    def _correct(self, entry: Ranked, correction: Correction, end_us: int) -> bool:
        """Corrects the leaderboard of this end; tells whether any is known: it was shown, within
        `correct_within`."""
        past = self._past.get((entry.leaderboard.name, end_us))
        if past is None:
            past = self._opened().run(ReadRememberedLeaderboard(entry.leaderboard.name, end_us))
        if past is None or past.fingerprint != entry.leaderboard.fingerprint:
            return False
        rows = np.flatnonzero(correction.ends_us == end_us)
        after = replace(past, offset_vector=correction.offset_vector)
        if past.version >= after.version:
            return True  # it was remembered after its corrections stood
        changed = _changed(entry, correction, rows)
        ranked = corrected(entry.ranked_rows(past), *changed, entry.remembered)
        window = (past.start_us, past.end_us)
        self._past[entry.leaderboard.name, end_us] = entry.made(
            ranked, window, correction.offset_vector, entry.remembered
        )
        k = entry.leaderboard.k
        if tuple(ranked_row.row for ranked_row in ranked.rows[:k]) == past.rows[:k]:
            return True
        now = entry.made(ranked, window, correction.offset_vector, k)
        if self._is_newest(entry.leaderboard.name, end_us):
            self._put(entry, now)
        self._publish_correction(entry, past, now, min(correction.causes[int(row)] for row in rows))
        return True

    def _is_newest(self, name: str, end_us: int) -> bool:
        """Tells whether the leaderboard of this end is the newest: a past one is corrected where it
        is said, and shown no more."""
        newest = self._newest.get(name)
        # since a restart none was shown; what stands, its order keeps from older ones
        if newest is None:
            return self._opened().run(ReadLeaderboard(name)).leaderboard is not None
        return newest == end_us

    def _publish_correction(
        self,
        ranking: Ranked,
        before: StoredLeaderboard,
        now: StoredLeaderboard,
        cause: tuple[str, int, int],
    ) -> None:
        assert self.corrections is not None
        assert ranking.leaderboard.topic is not None
        key, value = correction_record(ranking.leaderboard, before, now, cause)
        self.corrections.append(ranking.leaderboard.topic, key, value)
        self.corrected += 1

    def flush(self) -> None:
        """The newest leaderboard is shown; what was said stands; then what the next corrections
        start from is remembered."""
        for name in list(self._late):
            self._show_late(name)
        if self.corrections is not None:
            self.corrections.flush()
        if self._past:
            within = {
                leaderboard.name: leaderboard.correct_within_us
                for leaderboard in self.deployment.leaderboards
            }
            past = [
                (name, within[name], leaderboard) for (name, _), leaderboard in self._past.items()
            ]
            self._opened().run(RememberLeaderboards(self.deployment_version, past))
            self._past.clear()

    def take_skipped(self) -> Mapping[str, int]:
        """Leaderboard -> how many of its states were skipped since the last call."""
        skipped, self.skipped = self.skipped, Counter()
        return skipped

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _put(
        self, entry: Ranked, leaderboard: StoredLeaderboard, past: StoredLeaderboard | None = None
    ) -> None:
        """past: what corrections start from; it is remembered first, so that no leaderboard that
        was ever seen lacks it, also where a restart finds it late and skips it."""
        name, every_us = entry.leaderboard.name, entry.leaderboard.every_us
        late = self._late_us(leaderboard.end_us)
        # whoever catches up shows leaderboards more rarely than their periods
        extra_us = min(late, MAX_EXTRA_US) if late > PERIODS * every_us else 0
        try:
            store = self._opened()
            if past is not None:
                store.run(
                    RememberLeaderboards(
                        self.deployment_version, [(name, entry.leaderboard.correct_within_us, past)]
                    )
                )
            written = store.run(
                PublishLeaderboard(
                    name, self.deployment_version, every_us, leaderboard, extra_us=extra_us
                )
            )
        except StoreUnavailable as error:
            # readers see its age; the next tick writes a newer one
            self.failures += 1
            log.warning(
                "leaderboard_not_written",
                leaderboard=name,
                end_us=leaderboard.end_us,
                what=error.what,
            )
            self.close()
        else:
            self.written += written

    def _opened(self) -> OnlineStore:
        if self._store is None:
            self._store = self.open_store()
        return self._store


def _changed(
    entry: Ranked, correction: Correction, rows: np.ndarray[Any, Any]
) -> tuple[list[RankedRow], list[bytes]]:
    """Rows of one window end with a value now, and the keys of rows without."""
    at = pa.array(rows)
    who, values = (
        correction.entities.take(at),
        correction.values.column(entry.feature.column).combine_chunks().take(at),
    )
    names = [name for name, _ in entry.unit.entity]
    ranked = top(entry.unit.entity, who, values, entry.nothing, len(rows))
    stays = {ranked_row.rank[1] for ranked_row in ranked.rows}
    tags = entity_tags(entry.unit.entity, [who.column(name).to_pylist() for name in names])
    return list(ranked.rows), [tag for tag in tags if tag not in stays]


def correction_record(
    leaderboard: PlannedLeaderboard,
    before: StoredLeaderboard,
    now: StoredLeaderboard,
    cause: tuple[str, int, int],
) -> tuple[bytes, bytes]:
    """Key and value of a correction, canonical JSON: of one key the greatest version is the
    newest."""
    key = {"leaderboard": leaderboard.name, "end_us": now.end_us}
    value = {
        **key,
        "start_us": now.start_us,
        "feature": leaderboard.ref,
        "old": _rows(before, leaderboard.k),
        "new": _rows(now, leaderboard.k),
        "cause": dict(zip(("topic_id", "partition", "offset"), cause, strict=True)),
        "cover": {topic: _of_topic(now.offset_vector, topic) for topic, _ in now.offset_vector},
        "version": now.version,
        "short": now.more and len(now.rows) < leaderboard.k,
    }
    return _JSON.encode(key).encode(), _JSON.encode(value).encode()


def _of_topic(offset_vector: OffsetVector, topic: str) -> dict[str, int]:
    return {
        str(partition): offset
        for (name, partition), offset in offset_vector.offsets.items()
        if name == topic
    }


def _rows(leaderboard: StoredLeaderboard, k: int) -> list[dict[str, Any]]:
    names = [name for name, _ in leaderboard.columns]
    return [
        {"rank": i, "entity": dict(zip(names, row.key, strict=True)), "value": _json(row.value)}
        for i, row in enumerate(leaderboard.rows[:k], 1)
    ]


def _json(value: float | str) -> float | str:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
