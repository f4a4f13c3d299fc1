"""A reply holds what was read and under which control record it was read: time and record come with
the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from slicewise.reading.exchange import TagRead as TagRead
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import NodeContext, Route, Routed
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.routing import by_node
from slicewise.stores.online.steps import (
    STORE_VERSION,
    TIME,
    WHOLE_METADATA,
    Command,
    Fields,
    Steps,
    Tagged,
    Together,
    Whole,
)


@dataclass(frozen=True)
class UnitRead:
    """Keys of one unit and entity; per day key its fields."""

    hot: bytes | None
    days: tuple[tuple[bytes, tuple[bytes, ...]], ...] = ()


@dataclass(frozen=True)
class EntityRead:
    """Units under one tag, read in one transaction."""

    units: tuple[UnitRead, ...]


class UnitReply(NamedTuple):
    hot: list[bytes]
    """Field, value, field, value, ..."""
    days: list[list[bytes | None]]
    """Per day; of an event list per range the members in it."""


class NodeReply(NamedTuple):
    """Claims of a node about itself with its data: time and metadata was read on the same
    connection, before it."""

    time_us: int
    metadata: StoreMetadata
    server_run: ServerRun


@dataclass(frozen=True)
class ReadReply:
    """Data that was read, and the claims of the node that gave it: another's say nothing of it."""

    node_replies: Mapping[int, NodeReply]
    """Node, by its number in the store -> what it said; of those that were asked."""
    entities: list[list[UnitReply]]
    nodes: Sequence[int] = ()
    """Per entity the node that has it; empty: all are of the store's only one."""
    count: int = 1
    """Nodes of the store."""

    @property
    def only(self) -> NodeReply:
        """The reply of the only node that was asked. ValueError where there are several."""
        (node_reply,) = self.node_replies.values()
        return node_reply


@dataclass(frozen=True)
class Read(Routed[ReadReply]):
    """Entities' data, each in one transaction, from the nodes that have it; of nothing, what all
    nodes say of themselves."""

    reads: Sequence[EntityRead | TagRead]

    def steps(self, at: NodeContext) -> Steps[ReadReply]:
        replies = yield read_commands(self.reads)
        return self.reply(at, replies)

    def route(self, count: int) -> Route[ReadReply]:
        positions = by_node([tag_of(read) for read in self.reads], count)
        if not positions:
            return Route(
                dict.fromkeys(range(count), self),
                lambda replies: joined(replies, {}, 0, count),
                False,
            )
        parts = {n: Read([self.reads[i] for i in own]) for n, own in positions.items()}
        return Route(parts, lambda replies: joined(replies, positions, len(self.reads), count))

    def reply(self, at: NodeContext, replies: Sequence[Any]) -> ReadReply:
        """Replies to `read_commands`, in the shape of the reads."""
        flat = replies[1]
        if at.cache.parsed is None or at.cache.parsed[0] != flat:
            at.cache.parsed = flat, metadata.bound(metadata.parse(flat), at.store_id)
        record = at.cache.parsed[1]
        decisions.check_unchanged(replies[-1], at.store_id, record.deployment_version)
        entities = []
        for read, fields in zip(self.reads, replies[2:-1], strict=True):
            position = 0
            units = []
            if type(read) is TagRead:
                for _, days in read.shape.units:
                    end = position + 1 + len(days)
                    units.append(UnitReply(fields[position], fields[position + 1 : end]))
                    position = end
                entities.append(units)
                continue
            assert isinstance(read, EntityRead)
            for unit in read.units:
                hot: list[bytes] = []
                if unit.hot is not None:
                    hot = fields[position]
                    position += 1
                end = position + len(unit.days)
                units.append(UnitReply(hot, fields[position:end]))
                position = end
            entities.append(units)
        return ReadReply({0: NodeReply(replies[0], record, at.server_run)}, entities)


def read_commands(reads: Sequence[EntityRead | TagRead]) -> list[Command]:
    """Time and control record first, then one transaction per tag; last, whether store id and
    deployment version are still these."""
    commands: list[Command] = [TIME, WHOLE_METADATA]
    for read in reads:
        if type(read) is TagRead:
            commands.append(Tagged(read.shape, read.tag))
            continue
        assert isinstance(read, EntityRead)
        inside: list[Fields | Whole] = []
        for unit in read.units:
            if unit.hot is not None:
                inside.append(Whole(unit.hot))
            inside += [Fields(key, fields) for key, fields in unit.days]
        commands.append(Together(inside))
    commands.append(STORE_VERSION)
    return commands


def tag_of(read: EntityRead | TagRead) -> bytes:
    """The tag whose keys are read."""
    if isinstance(read, TagRead):
        return read.tag
    unit = read.units[0]
    key = unit.hot if unit.hot is not None else unit.days[0][0]
    return key[key.index(b"{") + 1 : key.index(b"}")]


def joined(
    replies: Mapping[int, ReadReply],
    positions: Mapping[int, Sequence[int]],
    entities: int,
    count: int,
) -> ReadReply:
    """One reply of those of single nodes; positions: where each one's entities stand."""
    units_of: list[list[UnitReply]] = [[]] * entities
    nodes = [0] * entities
    for number, reply in replies.items():
        for position, units in zip(positions.get(number, ()), reply.entities, strict=True):
            units_of[position], nodes[position] = units, number
    return ReadReply(
        {number: reply.only for number, reply in replies.items()}, units_of, nodes, count
    )
