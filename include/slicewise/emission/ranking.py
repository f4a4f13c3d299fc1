"""The rows of a leaderboard follow from values and keys alone: any order of the entities, and any
that are too many, give it.

Best first: the greater value, and of equal ones the smaller key by its bytes (`stores.keys`,
without the partition). An entity whose value is that of no events stands on no leaderboard, so that
it does not matter who is still remembered.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicewise.aggregates import Aggregate
from slicewise.codec.leaderboards import KeyValue, LeaderboardRow, Ranked
from slicewise.stores.online.keys import entity_tags

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A row and where it stands among others: smaller ranks are better."""

    rank: tuple[Any, bytes]
    row: LeaderboardRow


@dataclass(frozen=True)
class RankedRows:
    """The best rows of a window, best first; more: there are others."""

    rows: tuple[RankedRow, ...]
    more: bool


def top(
    columns: Sequence[tuple[str, str]],
    entities: pa.Table,
    values: pa.Array,
    nothing: object,
    k: int,
) -> RankedRows:
    """The best k. columns: (name, type) of the entity, sorted; values: aligned with entities, one
    row for each; nothing: the value of an entity without events. Nulls and NaN have no rank."""
    ranked = _ranked(values, nothing)
    kept = values.filter(ranked)
    who = entities.select([name for name, _ in columns]).filter(ranked)
    more = len(kept) > k
    if more:
        # what is worse than the k-th value cannot be on it; of its equals their keys decide
        best = pc.select_k_unstable(pa.table({"v": kept}), k, [("v", "descending")])
        least = kept.take(best[-1:])[0]
        enough = pc.greater_equal(kept, least)
        kept, who = kept.filter(enough), who.filter(enough)
    ranks = zip(
        (-value for value in kept.to_pylist()), _tags(columns, who), range(len(kept)), strict=True
    )
    chosen = pa.array([i for *_, i in nsmallest(k, ranks)], pa.int64())
    return RankedRows(tuple(ranked_rows(columns, who.take(chosen), kept.take(chosen))), more)


def ranked_rows(
    columns: Sequence[tuple[str, str]], entities: pa.Table, values: pa.Array
) -> list[RankedRow]:
    """Places of the rows, with their ranks, in the order given; none of them null."""
    listed: list[list[object]] = [entities.column(name).to_pylist() for name, _ in columns]
    tags = _tags(columns, entities)
    keys = zip(*([_key(value) for value in column] for column in listed), strict=True)
    return [
        RankedRow((-value, tag), LeaderboardRow(key, _value(value)))
        for value, tag, key in zip(values.to_pylist(), tags, keys, strict=True)
    ]


def _tags(columns: Sequence[tuple[str, str]], entities: pa.Table) -> list[bytes]:
    return entity_tags(columns, [entities.column(name).to_pylist() for name, _ in columns])


def _rank(ranked: RankedRow) -> tuple[Any, bytes]:
    return ranked.rank


def _ranked(values: pa.Array, nothing: object) -> pa.Array:
    """Marks the values that have a rank."""
    keep = pc.is_valid(values)
    if pa.types.is_floating(values.type):
        keep = pc.and_(keep, pc.invert(pc.is_nan(values)))
    if nothing is not None:
        keep = pc.and_(keep, pc.not_equal(values, pa.scalar(nothing, values.type)))
    return pc.fill_null(keep, False)


def of_no_events(aggregate: Aggregate) -> object:
    """The value of an entity without events: null, of counts 0."""
    value: object = (
        aggregate.finish_columns(aggregate.to_columns([aggregate.empty()])).values[0].as_py()
    )
    return value


def _key(value: Any) -> KeyValue:
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _US
    if isinstance(value, datetime.date):
        return value.isoformat()
    key: KeyValue = value
    return key


def _value(value: Any) -> Ranked:
    return f"{value:f}" if isinstance(value, decimal.Decimal) else value


def corrected(
    before: RankedRows, changed: Iterable[RankedRow], gone: Iterable[bytes], most: int
) -> RankedRows:
    """After late events. changed: what entities have now; gone: keys of those without a value now.
    Who was not among the rows is worse than all of them: where there is more, a row that fell below
    the worst of them is left out."""
    changed = list(changed)
    moved = {ranked.rank[1] for ranked in changed} | set(gone)
    rows = [ranked for ranked in before.rows if ranked.rank[1] not in moved] + changed
    if before.more:
        worst = before.rows[-1].rank if before.rows else ()
        rows = [ranked for ranked in rows if ranked.rank <= worst]
    rows.sort(key=_rank)
    return RankedRows(tuple(rows[:most]), before.more or len(rows) > most)
