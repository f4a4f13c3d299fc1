"""A batch is cut by the nodes that have its entities; what each of them makes of its part adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any, TypeVar

import numpy as np

from slicewise.aggregates.kernel.columns import Columns
from slicewise.stores.online.attempts import Int64
from slicewise.stores.online.port import ListBatch, MicroBatch, MicroBatchOutcome, PendingBatch, PendingOutcome
from slicewise.stores.online.routing import by_node

Listed = TypeVar("Listed", ListBatch, PendingBatch)
Outcome = TypeVar("Outcome", MicroBatchOutcome, PendingOutcome)


def fold_parts(batch: MicroBatch, count: int) -> dict[int, MicroBatch]:
    """Node -> its entities of a fold, in the order of the batch."""
    parts = _parts(batch.tags, batch.entity, count)
    return {node: batch if rows is None else _fold_part(batch, *each) for node, (rows, each) in parts.items()}


def _fold_part(batch: MicroBatch, tags: list[bytes], rows: Int64, entity: Int64) -> MicroBatch:
    def accumulate(chosen: Int64, groups: Int64, n_groups: int) -> Sequence[Columns]:
        return batch.accumulate(rows[chosen], groups, n_groups)

    ids = batch.ids
    if ids is not None:
        ids = replace(ids, ids=ids.ids[rows], known=ids.known[rows], kafka_us=ids.kafka_us[rows])
    offset, number = batch.offset[rows], batch.number[rows]
    return replace(batch, tags=tags, entity=entity, offset=offset, number=number, accumulate=accumulate, ids=ids)


def listed_parts(batch: Listed, count: int) -> dict[int, Listed]:
    """Node -> its entities of events, in the order of the batch."""
    parts = _parts(batch.tags, batch.entity, count)
    return {node: batch if rows is None else _listed_part(batch, *each) for node, (rows, each) in parts.items()}


def _listed_part(batch: Listed, tags: list[bytes], rows: Int64, entity: Int64) -> Listed:
    members = [batch.members[row] for row in rows.tolist()]
    return replace(batch, tags=tags, entity=entity, offset=batch.offset[rows], time=batch.time[rows], members=members)


def _parts(tags: Sequence[bytes], entity: Int64, count: int) -> dict[int, tuple[Int64 | None, Any]]:
    """Node -> (None: all of it is there), (tags, rows of the batch, entity of each)."""
    nodes = by_node(tags, count)
    if len(nodes) <= 1:
        return dict.fromkeys(nodes, (None, ()))
    of_node, position = np.empty(len(tags), np.int64), np.empty(len(tags), np.int64)
    for node, mine in nodes.items():
        of_node[mine], position[mine] = node, np.arange(len(mine))
    found: dict[int, tuple[Int64 | None, Any]] = {}
    for node, mine in nodes.items():
        rows = np.flatnonzero(of_node[entity] == node)
        found[node] = rows, ([tags[i] for i in mine], rows, position[entity[rows]])
    return found


def added(outcomes: Sequence[Outcome], none: Outcome) -> Outcome:
    """What parts came to together."""
    if not outcomes:
        return none
    return type(none)(*map(sum, zip(*map(astuple, outcomes), strict=True)))
