"""A board is made of one tick and written with it; what late events change is said before it is remembered.

The sink of emission that keeps leaderboards. Replays give equal bytes: boards by the order under which they are
written, corrections because what they start from is remembered only after they stand in their topic.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slicewise import log
from slicewise.codec.board import Board, BoardRow
from slicewise.cover import Cover
from slicewise.errors import StoreUnavailable
from slicewise.features.fingerprint import canonical_json
from slicewise.features.plan import Deployment
from slicewise.features.planned_board import PlannedBoard
from slicewise.features.unit import PlannedFeature, Unit
from slicewise.lifecycle.emission import Correction, Tick
from slicewise.lifecycle.ranking import Place, Standing, corrected, of_no_events, top
from slicewise.slices import Window
from slicewise.stores.keys import entity_tags
from slicewise.stores.ports import BoardStore

RESERVE = 4
"""Rows that are remembered of a past board, for each that it shows: late events may take rows off a board."""
SPARE = 40
MOST_REMEMBERED = 1_000


class Corrections(Protocol):
    """Where corrections go."""

    def append(self, topic: str, key: bytes, value: bytes) -> None: ...
    def flush(self) -> None:
        """Returns when all that was handed over stands. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True)
class Ranked:
    """A leaderboard with the unit and the feature that it ranks by."""

    board: PlannedBoard
    unit: Unit
    feature: PlannedFeature
    nothing: object
    """The value of an entity without events."""

    @property
    def remembered(self) -> int:
        """Rows that corrections start from."""
        return max(self.board.k, min(MOST_REMEMBERED, RESERVE * self.board.k + SPARE))

    def made(self, standing: Standing, window: tuple[int, int], cover: Cover, k: int) -> Board:
        """The board of these rows."""
        rows = tuple(place.row for place in standing.places[:k])
        more = standing.more or len(standing.places) > k
        return Board(self.board.fingerprint, *window, cover, self.unit.entity, rows, more)

    def standing(self, board: Board) -> Standing:
        """The rows of a board, with their ranks."""
        return Standing(tuple(Place(self._rank(row), row) for row in board.rows), board.more)

    def _rank(self, row: BoardRow) -> tuple[Any, bytes]:
        value = decimal.Decimal(row.value) if isinstance(row.value, str) else row.value
        return -value, self.tag(row)

    def tag(self, row: BoardRow) -> bytes:
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
class BoardSink:
    """Of one deployment. Used by one thread.

    open_store: opens a connection that holds the deployment's epoch; a broken one is left and another opened with the
    next tick: a board that could not be written is made anew within its period.
    """

    deployment: Deployment
    epoch: int
    open_store: Callable[[], BoardStore]
    corrections: Corrections | None = None
    written: int = 0
    failures: int = 0
    corrected: int = 0
    uncorrected: int = 0
    """Past boards that late events changed and nothing was remembered of."""
    _store: BoardStore | None = None
    _past: dict[tuple[str, int], Board] = field(default_factory=dict)
    """What is to be remembered once the corrections before it stand."""
    _ranked: Mapping[tuple[str, Window], Sequence[Ranked]] = field(init=False)

    def __post_init__(self) -> None:
        self._ranked = ranked(self.deployment)
        if self.corrections is None and any(each.topic for each in self.deployment.leaderboards):
            raise ValueError("corrections are declared, and there is nowhere for them to go")

    def publish(self, tick: Tick) -> None:
        """Writes the boards of this window end."""
        for each in self._ranked.get((tick.view, tick.window), ()):
            if tick.end_us % each.board.every_us:
                continue
            keeps = each.remembered if each.board.topic else each.board.k
            values = tick.values.column(each.feature.column).combine_chunks()
            found = top(each.unit.entity, tick.entities, values, each.nothing, keeps)
            window = (tick.start_us, tick.end_us)
            self._put(each, each.made(found, window, tick.cover, each.board.k))
            if each.board.topic:
                self._past[each.board.name, tick.end_us] = each.made(found, window, tick.cover, keeps)

    def correct(self, correction: Correction) -> None:
        """Says which past boards these late events change, and writes the one that stands."""
        for each in self._ranked.get((correction.view, correction.window), ()):
            if each.board.topic is None:
                continue
            for end_us in np.unique(correction.ends_us).tolist():
                if end_us % each.board.every_us == 0:
                    self._correct(each, correction, end_us)

    def _correct(self, each: Ranked, correction: Correction, end_us: int) -> None:
        past = self._past.get((each.board.name, end_us))
        if past is None:
            past = self._opened().remembered_board(each.board.name, end_us)
        if past is None or past.fingerprint != each.board.fingerprint:
            self.uncorrected += 1
            log.warning("board_not_corrected", leaderboard=each.board.name, end_us=end_us)
            return
        rows = np.flatnonzero(correction.ends_us == end_us)
        after = replace(past, cover=correction.cover)
        if past.version >= after.version:
            return  # it was remembered after its corrections stood
        changed = _changed(each, correction, rows)
        standing = corrected(each.standing(past), *changed, each.remembered)
        window = (past.start_us, past.end_us)
        self._past[each.board.name, end_us] = each.made(standing, window, correction.cover, each.remembered)
        k = each.board.k
        if tuple(place.row for place in standing.places[:k]) == past.rows[:k]:
            return
        now = each.made(standing, window, correction.cover, k)
        self._put(each, now)
        self._say(each, past, now, min(correction.causes[int(row)] for row in rows))

    def _say(self, each: Ranked, before: Board, now: Board, cause: tuple[str, int, int]) -> None:
        assert self.corrections is not None
        assert each.board.topic is not None
        key, value = correction_record(each.board, before, now, cause)
        self.corrections.append(each.board.topic, key, value)
        self.corrected += 1

    def flush(self) -> None:
        """What was said stands; then what the next corrections start from is remembered."""
        if self.corrections is not None:
            self.corrections.flush()
        if self._past:
            lives = {board.name: board.correct_within_us for board in self.deployment.leaderboards}
            past = [(name, lives[name], board) for (name, _), board in self._past.items()]
            self._opened().remember_boards(self.epoch, past)
            self._past.clear()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _put(self, each: Ranked, board: Board) -> None:
        try:
            written = self._opened().put_board(each.board.name, self.epoch, each.board.every_us, board)
        except StoreUnavailable as error:
            # readers see its age; the next tick writes a newer one
            self.failures += 1
            log.warning("board_not_written", leaderboard=each.board.name, end_us=board.end_us, what=error.what)
            self.close()
        else:
            self.written += written

    def _opened(self) -> BoardStore:
        if self._store is None:
            self._store = self.open_store()
        return self._store


def _changed(each: Ranked, correction: Correction, rows: np.ndarray[Any, Any]) -> tuple[list[Place], list[bytes]]:
    """Of one window end: those with a value now, and the keys of those without."""
    at = pa.array(rows)
    who, values = correction.entities.take(at), correction.values.column(each.feature.column).combine_chunks().take(at)
    names = [name for name, _ in each.unit.entity]
    standing = top(each.unit.entity, who, values, each.nothing, len(rows))
    stays = {place.rank[1] for place in standing.places}
    tags = entity_tags(each.unit.entity, [who.column(name).to_pylist() for name in names])
    return list(standing.places), [tag for tag in tags if tag not in stays]


def correction_record(
    board: PlannedBoard, before: Board, now: Board, cause: tuple[str, int, int]
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


def _of_topic(cover: Cover, topic: str) -> dict[str, int]:
    return {str(partition): offset for (name, partition), offset in cover.offsets.items() if name == topic}


def _rows(board: Board, k: int) -> list[dict[str, Any]]:
    names = [name for name, _ in board.columns]
    return [
        {"rank": i, "entity": dict(zip(names, row.key, strict=True)), "value": _json(row.value)}
        for i, row in enumerate(board.rows[:k], 1)
    ]


def _json(value: float | str) -> float | str:
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
