"""A batch is cut by the nodes that have its entities; what each of them makes of its part adds
up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from slicewise.aggregates.kernel.ragged import Int64
from slicewise.stores.online.sharded.routing import by_node


class Values(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class EventBatch(Values, Protocol):
    """Events by row, each with its time and what is stored of it."""

    @property
    def tags(self) -> Sequence[bytes]: ...
    @property
    def entity(self) -> Int64: ...
    @property
    def offset(self) -> Int64: ...
    @property
    def time(self) -> Int64: ...
    @property
    def members(self) -> Sequence[bytes]: ...


Events = TypeVar("Events", bound=EventBatch)
Outcome = TypeVar("Outcome", bound=Values)


class Part(NamedTuple):
    """Part of a batch for one node."""

    tags: list[bytes]
    rows: Int64
    """Rows of the batch."""
    entity: Int64
    """Per row: index into tags."""


def parts_of(tags: Sequence[bytes], entity: Int64, count: int) -> dict[int, Part | None]:
    """Node -> its part of a batch, in the order of the batch; None: all of it."""
    nodes = by_node(tags, count)
    if len(nodes) <= 1:
        return dict.fromkeys(nodes)
    of_node, position = np.empty(len(tags), np.int64), np.empty(len(tags), np.int64)
    for node, own in nodes.items():
        of_node[own], position[own] = node, np.arange(len(own))
    parts: dict[int, Part | None] = {}
    for node, own in nodes.items():
        rows = np.flatnonzero(of_node[entity] == node)
        parts[node] = Part([tags[i] for i in own], rows, position[entity[rows]])
    return parts


def event_parts(batch: Events, count: int) -> dict[int, Events]:
    """Node -> its entities' events, in the order of the batch."""
    parts = parts_of(batch.tags, batch.entity, count)
    return {
        node: batch if part is None else _events_of(batch, part) for node, part in parts.items()
    }


def _events_of(batch: Events, part: Part) -> Events:
    tags, rows, entity = part
    members = [batch.members[row] for row in rows.tolist()]
    return replace(
        batch,
        tags=tags,
        entity=entity,
        offset=batch.offset[rows],
        time=batch.time[rows],
        members=members,
    )
