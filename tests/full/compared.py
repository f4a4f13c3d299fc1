"""A history is played, and after each part of it everything is asked for: online = training by
token = the opinion.

Bounds of sliding, tumbling and hopping windows are worked out here too; those of a session are
searched for.
"""

from __future__ import annotations

import struct
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Event
from slicewise.codec.plain import converter
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.offsets.token import Token, decode_all
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import MAX_ENTITIES, MAX_VALUES
from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.answering.local import Question, answer
from slicewise.training.tables.given.events import TOPIC
from slicewise.training.tables.tokens import alike_tokens
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.exact_range import ExactRange
from slicewise.windows.hopping import Hopping
from slicewise.windows.rows import Rows
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding
from slicewise.windows.tumbling import Tumbling
from tests.full.histories import SOURCES, History
from tests.full.opinion import Contained
from tests.full.world import Part, World
from tests.laws.oracles.values import Error

MAX_LISTED = 20
_HALVES = int(TOPIC[:16], 16), int(TOPIC[16:], 16)


@dataclass
class Counted:
    """Values that were compared, by what they were compared with, and those that differ."""

    source: str
    seed: int
    events: int = 0
    answers: int = 0
    online: int = 0
    """With the opinion."""
    empty: int = 0
    """Values of these, of windows without an event."""
    bounds: int = 0
    """Windows' bounds, of an answer, with those that are worked out here; not counted as values."""
    training: int = 0
    """Values of training by the answer's token, with the answer."""
    hours: int = 0
    """Hours that were compacted."""
    mismatches: int = 0
    wrong: list[str] = field(default_factory=list)
    """The first of them."""

    @property
    def values(self) -> int:
        return self.online + self.training

    def differ(self, what: str, expected: Any, actual: Any) -> None:
        self.mismatches += 1
        if len(self.wrong) < MAX_LISTED:
            self.wrong.append(
                f"{self.source} seed {self.seed}: {what}: expected {expected!r}, found {actual!r}"
            )


def as_bytes(value: Any) -> bytes:
    """A value with its type, the names in it, and all its bits."""
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    if isinstance(value, Mapping):
        return (
            b"{"
            + b",".join(repr(name).encode() + b":" + as_bytes(item) for name, item in value.items())
            + b"}"
        )
    if isinstance(value, list | tuple):
        return b"[" + b",".join(map(as_bytes, value)) + b"]"
    return repr(value).encode()


def same(a: Any, b: Any) -> bool:
    """Tells whether two values are the same bytes."""
    if type(a) is type(b) and (a is None or isinstance(a, int | str)):
        return bool(a == b)
    return as_bytes(a) == as_bytes(b)


def play(source: str, seed: int, size: float) -> Counted:
    """One history, from its first event to its last; one that raises differs."""
    try:
        return played(World(SOURCES[source](seed, size)))
    except Exception:  # noqa: BLE001
        return Counted(
            source, seed, mismatches=1, wrong=[f"{source} seed {seed}: {traceback.format_exc()}"]
        )


def played(world: World) -> Counted:
    """The same, of a world that stands at its beginning."""
    history = world.history
    rng = Random(f"{history.name} {history.seed}")
    counted = Counted(history.name, history.seed, len(history.events))
    units = [ComparedUnit(world, part, counted) for part in world.parts]
    n = len(history.events)
    applied = 0
    for stage in range(1, history.stages + 1):
        end = n * stage // history.stages
        while applied < end:
            applied = min(end, applied + rng.randint(1, max(1, n // history.stages)))
            world.apply_to(applied, twice=rng.random() < 0.3)
        # the archive ends where the stream does, before it, or beyond
        archived = rng.choice([applied, rng.randint(0, applied), min(n, applied + n // 10)])
        counted.hours += world.compact(rng, archived)
        for at_us in world.instants(rng, history.instants):
            for unit in units:
                unit.compare(at_us)
        for unit in units:
            unit.train()
    return counted


class ComparedUnit:
    """A unit of a world: its entities, what the opinion knows of each, and what was answered."""

    def __init__(self, world: World, part: Part, counted: Counted) -> None:
        self._world, self._part, self._counted = world, part, counted
        self._events = _events(world.history, part)
        most = world.history.entities
        keys = [*islice(self._events, most)] or [()]
        names = [name for name, _ in part.unit.entity]
        if names:
            keys.append(
                tuple("nobody" if kind == "string" else -77 for _, kind in part.unit.entity)
            )
        self._keys = keys
        self._entities = [dict(zip(names, key, strict=True)) for key in keys]
        self._contained: dict[tuple[Any, ...], Contained] = {}
        self._specs = [str(feature.aggregate.spec()) for feature in part.unit.features]
        self._tokens: list[Token] = []
        self._answered: list[tuple[tuple[Any, ...], Mapping[str, str]]] = []
        self._rows: list[int] = []

    def compare(self, at_us: int | None) -> None:
        """All entities, at one instant."""
        unit = self._part.unit
        step = min(MAX_ENTITIES, max(1, MAX_VALUES // len(unit.features)))
        for first in range(0, len(self._entities), step):
            answer = self._world.read(unit, self._entities[first : first + step], at_us)
            self._judge(answer, first)

    def _judge(self, answer: Answer, first: int) -> None:
        unit, counted = self._part.unit, self._counted
        counted.answers += 1
        expected_bounds = [
            bounds_of(unit, feature, answer.mode, answer.t_us) for feature in unit.features
        ]
        for number, result in enumerate(answer.results, first):
            (token,) = decode_all(result.token)
            if token.base.offsets != self._world.ends.offsets:
                counted.differ(
                    f"offset vector of {unit.view} {self._keys[number]}",
                    self._world.ends,
                    token.base,
                )
            contained = self._contained_in(number, token)
            bounds = token.bounds
            for i, feature in enumerate(unit.features):
                start, end = bounds[feature.column]
                window = feature.window
                wanted = expected_bounds[i]
                if isinstance(window, Session):
                    a, b = contained.session(end - window.length_us, end, window.gap_us)
                    wanted = (
                        contained.times[a] // unit.slice_us * unit.slice_us if b > a else end,
                        end,
                    )
                else:
                    a, b = contained.between(start, end)
                    if window.most_rows:
                        a = max(a, b - window.most_rows)
                if wanted is not None:
                    counted.bounds += 1
                    if wanted != (start, end):
                        counted.differ(
                            f"bounds of {self._where(number, feature, answer)}",
                            wanted,
                            (start, end),
                        )
                aged = answer.t_us - window.offset_us if window.by_events else end
                expected = contained.value(self._specs[i], feature.aggregate, a, b, aged)
                outcome = result.values[i]
                counted.online += 1
                counted.empty += a == b
                if isinstance(expected, Error):
                    code = result.errors.get(f"{unit.view}:{feature.column}")
                    if outcome is not None or code != str(expected):
                        counted.differ(
                            self._where(number, feature, answer), expected, (outcome, code)
                        )
                elif not same(expected, outcome):
                    counted.differ(self._where(number, feature, answer), expected, outcome)
            self._tokens.append(token)
            self._answered.append((result.values, result.errors))
            self._rows.append(number)

    def _where(self, number: int, feature: PlannedFeature, answer: Answer) -> str:
        return (
            f"{self._part.unit.view} {self._keys[number]} {feature.column} at {answer.t_us} "
            f"({answer.mode})"
        )

    def train(self) -> None:
        """Training by the tokens of all that was answered since the last time."""
        unit, counted = self._part.unit, self._counted
        offline = self._part.offline
        names = [name for name, _ in unit.entity]
        columns = {name: [self._entities[row][name] for row in self._rows] for name in names}
        types = dict(unit.entity)
        table = pa.table(
            {
                n: pa.array(v, pa.string() if types[n] == "string" else pa.int64())
                for n, v in columns.items()
            }
        )
        numbers = offline.entities.numbers(table) if names else np.zeros(len(self._rows), np.int64)
        bounds = {
            feature.column: tuple(
                np.array([token.bounds[feature.column][side] for token in self._tokens], np.int64)
                for side in (0, 1)
            )
            for feature in unit.features
        }
        offset_vectors = TokenOffsets.of(
            alike_tokens(enumerate(self._tokens)), len(self._tokens), offline.topic_partitions
        )
        finished = answer(offline, unit.features, Question(numbers, bounds, offset_vectors))  # type: ignore[arg-type]
        for i, feature in enumerate(unit.features):
            values = converter(feature.aggregate.output_type)(finished[feature.column].values)
            counted.training += len(values)
            for row, value in enumerate(values):
                result = self._answered[row][0][i]
                if not same(result, value):
                    key = self._keys[self._rows[row]]
                    counted.differ(f"training of {unit.view} {key} {feature.column}", result, value)
        self._tokens, self._answered, self._rows, self._contained = [], [], [], {}

    def _contained_in(self, number: int, token: Token) -> Contained:
        """The entity's events that the answer contains."""
        compacted_beyond = tuple(
            (hour, tuple(offset_vector.offsets.items()))
            for hour, offset_vector in token.compacted_beyond.items()
        )
        key = (number, tuple(token.base.offsets.items()), compacted_beyond)
        if key not in self._contained:
            events = self._events.get(self._keys[number], [])
            self._contained[key] = Contained(
                [
                    e
                    for e in events
                    if token.contains(e.time // HOUR_US, (TOPIC, e.partition), e.offset)
                ]
            )
        return self._contained[key]


def _events(history: History, part: Part) -> dict[tuple[Any, ...], list[Event]]:
    """The events of each entity, by what row logic is meant to say; AssertionError where the
    product's says else."""
    unit = part.unit
    names = [name for name, _ in unit.entity]
    inputs = [name for name, _ in unit.input_types]
    (source,) = history.deployment.sources
    events: dict[tuple[Any, ...], list[Event]] = {}
    rows: dict[tuple[int, int], list[Any]] = {}
    for raw in history.events:
        columns = dict(raw)
        for name, expression in unit.columns:
            columns[name] = history.meanings[expression.text](raw)
        key = tuple(columns[name] for name in names)
        if None in key or (
            unit.where is not None and history.meanings[unit.where.text](raw) is not True
        ):
            continue
        columns = {name: columns[name] for name in inputs}
        topic_partition = raw["partition"], raw["offset"]
        rows[topic_partition] = list(columns.values())
        events.setdefault(key, []).append(
            Event(raw[source.timestamp], *_HALVES, *topic_partition, columns)
        )
    taken = part.rows.select(["partition", "offset", *inputs]).to_pylist()
    assert len(taken) == len(rows), (
        f"row logic of {unit.view} takes {len(taken)} events, not {len(rows)}"
    )
    for row in taken:
        wanted = rows[row["partition"], row["offset"]]
        assert all(
            map(
                same,
                [v + 0.0 if isinstance(v, float) else v for v in wanted],
                [row[n] for n in inputs],
            )
        ), (
            unit.view,
            row,
            wanted,
        )
    return events


MOST_PARTS = 1_500
"""A sliding window starts at a multiple of the finest level of which it has so many at most."""


def bounds_of(
    unit: StorageUnit, feature: PlannedFeature, mode: str, t_us: int
) -> tuple[int, int] | None:
    """A window's bounds at a moment, as docs/reference/aggregates.md, "Windows", has them.

    None of sessions, whose start follows from the events.
    """
    window, slice_us = feature.window, unit.slice_us
    t = t_us - window.offset_us
    present = (-(-t // slice_us) if mode == "live" else t // slice_us) * slice_us
    match window:
        case Sliding():
            levels = [
                level for level in (slice_us, MINUTE_US, HOUR_US, DAY_US) if level % slice_us == 0
            ]
            step = next(level for level in sorted(levels) if window.length_us <= MOST_PARTS * level)
            return (t - window.length_us) // step * step, present
        case Tumbling() | Hopping():
            end = t // window.hop_us * window.hop_us + (window.hop_us if window.open else 0)
            return end - window.length_us, min(end, present) if window.open else end
        case ExactRange():
            starts = {"both": 0, "left": 0, "right": 1, "neither": 1}
            return t - window.length_us + starts[window.closed], t + (
                window.closed in ("both", "right")
            )
        case Rows():
            return EARLIEST_US, t + 1
        case Session():
            return None
        case other:
            raise AssertionError(f"no opinion on a window of kind {other.kind}")


def fingerprint(counted: Counted) -> tuple[Any, ...]:
    """The figures that two runs of one seed agree on."""
    return (
        counted.source,
        counted.seed,
        counted.events,
        counted.answers,
        counted.online,
        counted.bounds,
        counted.training,
        counted.mismatches,
    )
