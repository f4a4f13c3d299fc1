"""Publishes entries of one hour, as a test or a bench has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.operations.publish_days import (
    DayEntry,
    HourValues,
    PublishDays,
    PublishOutcome,
)
from slicewise.stores.online.port import NodeContext, NodesContext, Operation
from slicewise.stores.online.sharded.routing import ShardedSteps
from slicewise.stores.online.steps import Steps
from slicewise.stores.online.stored_unit import StoredUnit


@dataclass(frozen=True)
class HourEntry:
    """One entity's compacted hour, as codec envelopes of one archive version."""

    tag: bytes
    total: bytes
    slices: bytes
    minutes: bytes | None = None


NOTHING = PublishOutcome(0, 0, 0, ())


@dataclass(frozen=True)
class PublishHour(Operation[PublishOutcome]):
    """`PublishDays` of one hour."""

    unit: StoredUnit
    hour: int
    archive_version: int
    offsets: OffsetVector
    """Content of the archive version."""
    entries: Sequence[HourEntry]

    def steps(self, at: NodeContext) -> Steps[PublishOutcome]:
        return (yield from self._days().steps(at)).hours.get(self.hour, NOTHING)

    def over(self, nodes: NodesContext) -> ShardedSteps[PublishOutcome]:
        return (yield from self._days().over(nodes)).hours.get(self.hour, NOTHING)

    def _days(self) -> PublishDays:
        entries = [
            DayEntry(e.tag, (HourValues(self.hour, e.total, e.slices, e.minutes),))
            for e in self.entries
        ]
        return PublishDays(self.unit, self.archive_version, self.offsets, entries)
