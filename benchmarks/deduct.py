"""The sliding step of emission: all slices of a window combined anew, beside deducting what left.

    python -m benchmarks.deduct [--ticks 15] [--json file]

Windows move by a slice. At each tick the emission combines the slices of each entity's window
(`UnitEmission._tick`); the other way keeps the partials of the window before, combines what came
and deducts what left. Both take whole steps in turns, from the same events to the same tick: equal
bits, or it fails. Of 10,000 entities a tenth has an event in each slice. Figures are medians of
processor time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import slicewise as sw
from slicewise.aggregates import Aggregate, Columns, Invertible
from slicewise.aggregates.kernel.events import Rows
from slicewise.emission.entities import Int64, numbered, same
from slicewise.emission.state import concat
from slicewise.emission.ticks import Tick
from slicewise.emission.unit import UnitEmission, _chosen, _errors, _public, _table
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import SliceUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.window import Window

SECOND_US, NOW_US = 1_000_000, 1_700_000_000_000_000
AGGREGATES = {
    "count": sw.count(),
    "sum": sw.sum("seconds"),
    "mean": sw.mean("seconds"),
    "variance": sw.variance("seconds"),
}
SLICES, ENTITIES, SEED = (10, 60, 600), (1, 10_000), 7
SHARE = 10
"""One of so many entities has an event in a slice."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The window before: its entities, their partials, and how many rows of slices they have."""

    entities: pa.Table
    partials: tuple[Columns, ...]
    rows: Int64


class Deducting(UnitEmission):
    """The same emission by deduction; for events in order alone."""

    kept: Kept | None = None

    def _tick(self, window: Window, end_us: int, offset_vector: OffsetVector) -> Tick | None:
        features, before = self._windows[window], self._shown[window]
        slice_us = self.unit.slice_us
        end, start = end_us // slice_us, (end_us - window.length_us) // slice_us
        first_tick = self.kept is None
        came = self.state.between(start if first_tick else end - 1, end)
        left = None if first_tick else self.state.between(start - 1, start)
        parts = [
            *(() if self.kept is None else (self.kept.entities,)),
            *(chunk.entities for chunk in (came, left) if chunk is not None),
            *(() if before is None else (before.entities,)),
        ]
        if not parts:
            return None
        entities = pa.concat_tables(parts).combine_chunks()
        codes, first = numbered(entities)
        n, at = len(first), 0

        def taken(rows: int) -> Int64:
            nonlocal at
            at += rows
            return codes[at - rows : at]

        own = taken(0 if self.kept is None else self.kept.entities.num_rows)
        came_codes = taken(0 if came is None else len(came))
        left_codes = taken(0 if left is None else len(left))
        shown_codes = codes[at:]
        whole = self.state.joined(
            [
                *(() if self.kept is None else (self.kept.partials,)),
                *(() if came is None else (came.partials,)),
            ],
            np.concatenate([own, came_codes]),
            n,
        )
        rows = np.bincount(came_codes, minlength=n)
        if self.kept is not None:
            rows[own] += self.kept.rows
        if left is not None:
            part = self.state.combine(left, left_codes, n)
            pairs = zip(self.state.aggregates, whole, part, strict=True)
            whole = tuple(_deducted(aggregate, all_, gone) for aggregate, all_, gone in pairs)
            rows -= np.bincount(left_codes, minlength=n)
        ends = np.full(n, end_us, np.int64)
        finished = self.state.finish(features, whole, ends)
        none = self._values(features, None, np.empty(0, np.int64), np.array([end_us], np.int64))
        changed, shown_rows = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        if before is not None:
            shown_rows[shown_codes] = np.arange(1, before.entities.num_rows + 1)
        for i, (now, empty) in enumerate(zip(finished, none, strict=True)):
            shown = (
                empty.values
                if before is None
                else pa.concat_arrays([empty.values, before.values[i]])
            )
            changed |= ~same(now.values, shown.take(pa.array(shown_rows)))
        entities = entities.take(pa.array(first))
        values = tuple(result.values for result in finished)
        present = np.flatnonzero(rows > 0)
        self._shown[window] = _chosen(entities, values, present) if len(present) else None
        stays = pa.array(present)
        self.kept = Kept(
            entities.take(stays), tuple(one.take(present) for one in whole), rows[present]
        )
        return Tick(
            view=self.unit.view,
            window=window,
            start_us=end_us - window.length_us,
            end_us=end_us,
            entities=_public(entities),
            values=_table(features, values),
            changed=changed,
            errors=_errors(features, finished),
            offset_vector=offset_vector,
        )


def _deducted(aggregate: Aggregate, whole: Columns, part: Columns) -> Columns:
    assert isinstance(aggregate, Invertible)
    return aggregate.deduct_columns(whole, part)


def unit_of(aggregates: Sequence[Aggregate], slices: int) -> SliceUnit:
    """A unit whose windows have so many slices of a second, and move by one."""
    plays = sw.KafkaSource(
        "plays", schema={"user": "string", "seconds": "double", "t": "timestamp_us"}, timestamp="t"
    )
    window = sw.hopping(f"{slices}s", every="1s")
    view = sw.FeatureView(
        "listening",
        source=plays,
        entity=["user"],
        slice="1s",
        features=[
            sw.Feature(f"f{i}", aggregate, windows=[window])
            for i, aggregate in enumerate(aggregates)
        ],
        emit="windows",
    )
    return plan(Project.of("bench", [plays, view])).sliced[0]


class Events:
    """Events of slices, in their order."""

    def __init__(self, entities: int) -> None:
        self._chance, self._entities, self._offset = np.random.default_rng(SEED), entities, 0

    def of(self, numbers: Sequence[int]) -> tuple[Rows, pa.Table]:
        """Events of these slices, and their entities."""
        per_slice = max(1, self._entities // SHARE)
        n = per_slice * len(numbers)
        users = np.concatenate(
            [self._chance.choice(self._entities, per_slice, replace=False) for _ in numbers]
        )
        seconds = pa.array(np.round(self._chance.uniform(0, 420, n), 3))
        self._offset += n
        rows = Rows(
            np.repeat(np.array(numbers, np.int64) * SECOND_US, per_slice),
            np.zeros(n, np.uint64),
            np.ones(n, np.uint64),
            np.zeros(n, np.int32),
            np.arange(self._offset - n, self._offset, dtype=np.int64),
            {"seconds": seconds},
        )
        return rows, pa.table({"user": pa.array(np.char.add("user", users.astype(str)))})


def measured(
    aggregates: Sequence[Aggregate], slices: int, entities: int, ticks: int
) -> dict[str, Any]:
    """Milliseconds of processor time of a step by both ways."""
    unit, events = unit_of(aggregates, slices), Events(entities)
    columns = frozenset(feature.column for feature in unit.features)
    sides = [way(unit, columns, 0) for way in (UnitEmission, Deducting)]
    now = NOW_US // SECOND_US
    rows, who = events.of(range(now - slices, now))
    for side in sides:
        side.remember(rows, who)
        side.begin((now - slices - 1) * SECOND_US, now * SECOND_US)
    times: list[list[float]] = [[], []]
    for tick in range(1, ticks + 1):
        rows, who = events.of([now + tick - 1])
        seen: list[Tick] = []
        for i in (0, 1) if tick % 2 else (1, 0):
            begun = time.process_time()
            (one,) = sides[i].advance((now + tick) * SECOND_US, rows, who, OffsetVector())
            times[i].append((time.process_time() - begun) * 1e3)
            assert isinstance(one, Tick)
            seen.append(one)
        compare(*seen)
    both = [statistics.median(side[1:]) for side in times]
    begun = time.process_time()
    chunk = sides[0].state.between(now + ticks - slices, now + ticks)
    assert chunk is not None
    codes, first = numbered(concat([chunk]).entities)
    sides[0].state.combine(chunk, codes, len(first))
    part = (time.process_time() - begun) * 1e3
    return {
        "recombined_ms": round(both[0], 2),
        "deducted_ms": round(both[1], 2),
        "times": round(both[0] / both[1], 2),
        "combining_share": round(part / both[0], 2),
        "rows": len(chunk),
    }


def compare(one: Tick, other: Tick) -> None:
    """Fails where two ticks differ in an entity, a bit of a value, or whether it changed."""

    def by_entity(tick: Tick) -> pa.Table:
        table = tick.values.append_column("user", tick.entities["user"])
        return table.append_column("changed", pa.array(tick.changed)).sort_by("user")

    if not by_entity(one).equals(by_entity(other)):
        raise AssertionError("a tick by deduction is another than the one by combination")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=15)
    parser.add_argument("--slices", type=int, nargs="+", default=SLICES)
    parser.add_argument("--entities", type=int, nargs="+", default=ENTITIES)
    parser.add_argument("--only", nargs="+", choices=[*AGGREGATES, "all"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    figures = []
    kinds = {**{name: [one] for name, one in AGGREGATES.items()}, "all": [*AGGREGATES.values()]}
    kinds = {name: kinds[name] for name in options.only or kinds}
    for entities in options.entities:
        for slices in options.slices:
            for name, aggregates in kinds.items():
                of = measured(aggregates, slices, entities, options.ticks)
                figures.append({"aggregate": name, "slices": slices, "entities": entities, **of})
                sys.stdout.write(
                    f"{entities:>6,} entities, {slices:>3} slices, {name:<8} "
                    f"{of['recombined_ms']:>9,.2f} ms {of['deducted_ms']:>9,.2f} ms "
                    f"{of['times']:>6.2f} times, combining {of['combining_share']:.0%}\n"
                )
                sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
