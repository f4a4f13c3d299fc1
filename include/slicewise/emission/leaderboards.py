"""A board is made of one tick and written with it; what late events change is said before it is remembered.

The sink of emission that keeps leaderboards. Replays give equal bytes: boards by the order under which they are
written, corrections because what they start from is remembered only after they stand in their topic. While the
emission catches up, boards that would be stale when they are written are skipped for the newest of them.
"""

from __future__ import annotations

import decimal
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
from slicewise.emission.ranking import Place, Standing, corrected, of_no_events, top
from slicewise.emission.ticks import Correction, Tick
from slicewise.errors import StoreUnavailable
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.fingerprint import canonical_json
from slicewise.features.plan.leaderboard import PlannedLeaderboard
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
"""Rows that are remembered of a past board, for each that it shows: late events may take rows off a board."""
SPARE = 40
MOST_REMEMBERED = 1_000
HELD_US = 30_000_000
"""Of a board that is late already when it is written: how much longer than others it stands, at most."""


class Corrections(Protocol):
    """Receiver of corrections."""

    def append(self, topic: str, key: bytes, value: bytes) -> None: ...
    def flush(self) -> None:
        """Returns when all that was handed over stands. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True)
class Ranked:
    """A leaderboard with the unit and the feature that it ranks by."""

    board: PlannedLeaderboard
    unit: StorageUnit
    feature: PlannedFeature
    nothing: object
    """The value of an entity without events."""

    @property
    def remembered(self) -> int:
        """Rows that corrections start from."""
        return max(self.board.k, min(MOST_REMEMBERED, RESERVE * self.board.k + SPARE))

    def made(self, standing: Standing, window: tuple[int, int], cover: OffsetVector, k: int) -> StoredLeaderboard:
        """The board of these rows."""
        rows = tuple(place.row for place in standing.places[:k])
        more = standing.more or len(standing.places) > k
        return StoredLeaderboard(self.board.fingerprint, *window, cover, self.unit.entity, rows, more)

    def standing(self, board: StoredLeaderboard) -> Standing:
        """The rows of a board, with their ranks."""
        return Standing(tuple(Place(self._rank(row), row) for row in board.rows), board.more)

    def _rank(self, row: LeaderboardRow) -> tuple[Any, bytes]:
        value = decimal.Decimal(row.value) if isinstance(row.value, str) else row.value
        return -value, self.tag(row)

    def tag(self, row: LeaderboardRow) -> bytes:
        """The bytes that decide between equal values. A date and an instant are written in keys as in boards."""
        return entity_tags(self.unit.entity, [[value] for value in row.key])[0]


def ranked(deployment: Deployment) -> dict[tuple[str, Window], list[Ranked]]:
    """View and window -> the leaderboards that its ticks make."""
    found: dict[tuple[str, Window], list[Ranked]] = {}
    for board in deployment.leaderboards:
        unit, feature = deployment.resolve(board.ref)
        each = Ranked(board, unit, feature, of_no_events(feature.aggregate))
        found.setdefault((unit.view, feature.window), []).append(each)
    return found


@dataclass
class LeaderboardSink:
    """Leaderboards of one deployment. Used by one thread.

    open_store: opens a connection that holds the deployment's epoch; a broken one is left and another opened with the
    next tick: a board that could not be written is made anew within its period.
    """

    deployment: Deployment
    epoch: int
    open_store: Callable[[], OnlineStore]
    clock: Clock
    corrections: Corrections | None = None
    written: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Leaderboard -> boards that were never shown: they were stale, and others newer, before they were written."""
    failures: int = 0
    corrected: int = 0
    uncorrected: int = 0
    """Past boards that late events changed and nothing was remembered of."""
    _store: OnlineStore | None = None
    _past: dict[tuple[str, int], StoredLeaderboard] = field(default_factory=dict)
    """What is to be remembered once the corrections before it stand."""
    _late: dict[str, tuple[Ranked, Tick]] = field(default_factory=dict)
    """Leaderboard -> its newest tick, where that came too late to be shown unless nothing newer follows."""
    _newest: dict[str, int] = field(default_factory=dict)
    """Leaderboard -> the window end that was shown last."""
    _ranked: Mapping[tuple[str, Window], Sequence[Ranked]] = field(init=False)

    def __post_init__(self) -> None:
        self._ranked = ranked(self.deployment)
        if self.corrections is None and any(each.topic for each in self.deployment.leaderboards):
            raise ValueError("corrections are declared, and there is nowhere for them to go")

    def publish(self, tick: Tick) -> None:
        """Writes the boards of this window end, or where it is long past leaves them to newer ones until `flush`."""
        late = self._late_us(tick.end_us)
        for each in self._ranked.get((tick.view, tick.window), ()):
            if tick.end_us % each.board.every_us:
                continue
            if self._late.pop(each.board.name, None) is not None:
                self.skipped[each.board.name] += 1
            if late > PERIODS * each.board.every_us:
                self._late[each.board.name] = each, tick
            else:
                self._show(each, tick)

    def _late_us(self, end_us: int) -> int:
        return self.clock.now_us() - end_us

    def _show(self, each: Ranked, tick: Tick) -> None:
        keeps = each.remembered if each.board.topic else each.board.k
        values = tick.values.column(each.feature.column).combine_chunks()
        found = top(each.unit.entity, tick.entities, values, each.nothing, keeps)
        window = (tick.start_us, tick.end_us)
        past = each.made(found, window, tick.cover, keeps) if each.board.topic else None
        self._newest[each.board.name] = tick.end_us
        if past is not None:
            self._past[each.board.name, tick.end_us] = past
        self._put(each, each.made(found, window, tick.cover, each.board.k), past)

    def _show_late(self, name: str) -> None:
        each, tick = self._late.pop(name)
        self._show(each, tick)

    def correct(self, correction: Correction) -> None:
        """Says which past boards these late events change, and writes the one that stands."""
        for each in self._ranked.get((correction.view, correction.window), ()):
            if each.board.topic is None:
                continue
            ends = np.unique(correction.ends_us).tolist()
            if each.board.name in self._late and self._late[each.board.name][1].end_us in ends:
                self._show_late(each.board.name)  # as it was before these events: they correct it
            ends = [end_us for end_us in ends if end_us % each.board.every_us == 0]
            unknown = [end_us for end_us in ends if not self._correct(each, correction, end_us)]
            if unknown:
                self.uncorrected += len(unknown)
                first_us, last_us = unknown[0], unknown[-1]
                log.warning("boards_not_corrected", leaderboard=each.board.name, first_us=first_us, last_us=last_us)

    def _correct(self, each: Ranked, correction: Correction, end_us: int) -> bool:
        """Corrects the board of this end; tells whether any is known: it was shown, within `correct_within`."""
        past = self._past.get((each.board.name, end_us))
        if past is None:
            past = self._opened().run(ReadRememberedLeaderboard(each.board.name, end_us))
        if past is None or past.fingerprint != each.board.fingerprint:
            return False
        rows = np.flatnonzero(correction.ends_us == end_us)
        after = replace(past, cover=correction.cover)
        if past.version >= after.version:
            return True  # it was remembered after its corrections stood
        changed = _changed(each, correction, rows)
        standing = corrected(each.standing(past), *changed, each.remembered)
        window = (past.start_us, past.end_us)
        self._past[each.board.name, end_us] = each.made(standing, window, correction.cover, each.remembered)
        k = each.board.k
        if tuple(place.row for place in standing.places[:k]) == past.rows[:k]:
            return True
        now = each.made(standing, window, correction.cover, k)
        if self._stands(each.board.name, end_us):
            self._put(each, now)
        self._say(each, past, now, min(correction.causes[int(row)] for row in rows))
        return True

    def _stands(self, name: str, end_us: int) -> bool:
        """Tells whether the board of this end is the newest: a past one is corrected where it is said, and shown no more."""
        newest = self._newest.get(name)
        if newest is None:  # since a restart none was shown; what stands, its order keeps from older ones
            return self._opened().run(ReadLeaderboard(name)).board is not None
        return newest == end_us

    def _say(
        self, each: Ranked, before: StoredLeaderboard, now: StoredLeaderboard, cause: tuple[str, int, int]
    ) -> None:
        assert self.corrections is not None
        assert each.board.topic is not None
        key, value = correction_record(each.board, before, now, cause)
        self.corrections.append(each.board.topic, key, value)
        self.corrected += 1

    def flush(self) -> None:
        """The newest board is shown; what was said stands; then what the next corrections start from is remembered."""
        for name in list(self._late):
            self._show_late(name)
        if self.corrections is not None:
            self.corrections.flush()
        if self._past:
            within = {board.name: board.correct_within_us for board in self.deployment.leaderboards}
            past = [(name, within[name], board) for (name, _), board in self._past.items()]
            self._opened().run(RememberLeaderboards(self.epoch, past))
            self._past.clear()

    def take_skipped(self) -> Mapping[str, int]:
        """Leaderboard -> boards skipped since this was asked last."""
        found, self.skipped = self.skipped, Counter()
        return found

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _put(self, each: Ranked, board: StoredLeaderboard, past: StoredLeaderboard | None = None) -> None:
        """past: what corrections start from; it is remembered first, so that no board that was ever seen lacks it,
        also where a restart finds it late and skips it."""
        name, every_us = each.board.name, each.board.every_us
        late = self._late_us(board.end_us)
        # whoever catches up shows boards more rarely than their periods
        held = min(late, HELD_US) if late > PERIODS * every_us else 0
        try:
            store = self._opened()
            if past is not None:
                store.run(RememberLeaderboards(self.epoch, [(name, each.board.correct_within_us, past)]))
            written = store.run(PublishLeaderboard(name, self.epoch, every_us, board, held_us=held))
        except StoreUnavailable as error:
            # readers see its age; the next tick writes a newer one
            self.failures += 1
            log.warning("board_not_written", leaderboard=name, end_us=board.end_us, what=error.what)
            self.close()
        else:
            self.written += written

    def _opened(self) -> OnlineStore:
        if self._store is None:
            self._store = self.open_store()
        return self._store


def _changed(each: Ranked, correction: Correction, rows: np.ndarray[Any, Any]) -> tuple[list[Place], list[bytes]]:
    """Rows of one window end with a value now, and the keys of rows without."""
    at = pa.array(rows)
    who, values = correction.entities.take(at), correction.values.column(each.feature.column).combine_chunks().take(at)
    names = [name for name, _ in each.unit.entity]
    standing = top(each.unit.entity, who, values, each.nothing, len(rows))
    stays = {place.rank[1] for place in standing.places}
    tags = entity_tags(each.unit.entity, [who.column(name).to_pylist() for name in names])
    return list(standing.places), [tag for tag in tags if tag not in stays]


def correction_record(
    board: PlannedLeaderboard, before: StoredLeaderboard, now: StoredLeaderboard, cause: tuple[str, int, int]
) -> tuple[bytes, bytes]:
    """Key and value of a correction, canonical JSON: of one key the greatest version is the newest."""
    key = {"leaderboard": board.name, "end_us": now.end_us}
    value = {
        **key,
        "start_us": now.start_us,
        "feature": board.ref,
        "old": _rows(before, board.k),
        "new": _rows(now, board.k),
        "cause": dict(zip(("topic_id", "partition", "offset"), cause, strict=True)),
        "cover": {topic: _of_topic(now.cover, topic) for topic, _ in now.cover},
        "version": now.version,
        "short": now.more and len(now.rows) < board.k,
    }
    return canonical_json(key).encode(), canonical_json(value).encode()


def _of_topic(cover: OffsetVector, topic: str) -> dict[str, int]:
    return {str(partition): offset for (name, partition), offset in cover.offsets.items() if name == topic}


def _rows(board: StoredLeaderboard, k: int) -> list[dict[str, Any]]:
    names = [name for name, _ in board.columns]
    return [
        {"rank": i, "entity": dict(zip(names, row.key, strict=True)), "value": _json(row.value)}
        for i, row in enumerate(board.rows[:k], 1)
    ]


def _json(value: float | str) -> float | str:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
