"""A serving process that is asked for every entity after every write: no answer is taken back by a
loss of the store.

It is the service's own memory (`serving/answering/memory/high_water.py`) that refuses; whether it
has to is said by a plainer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from slicewise.serving.answering.memory.high_water import HighWater
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.operations.reading import NodeReply
from tests.support.stores.stored import StoreUnit, offset_vector, tag, topic_partition

Run = tuple[ServerRun, int]
Offsets = dict[int, int]
"""Partition -> first offset not contained."""


class _Source(NamedTuple):
    name: str
    topic: str


SOURCES = (_Source("plays", "plays"),)


@dataclass
class Answered:
    """Answers about something, and the store's life in which they were given."""

    run: Run | None = None
    before: Offsets = field(default_factory=dict)
    """The most in earlier server runs."""
    now: Offsets = field(default_factory=dict)

    def lacks(self, run: Run, offsets: Sequence[int]) -> str | None:
        """Tells what was answered in an earlier server run and is not there; None: nothing."""
        if run != self.run:
            self.before, self.now, self.run = _most(self.before, self.now), {}, run
        behind = [
            p
            for p, offset in self.before.items()
            if (offsets[p] if p < len(offsets) else 0) < offset
        ]
        return f"{list(offsets)} of {self.before}" if behind else None

    def given(self, offsets: Sequence[int]) -> None:
        """Remembers that it was answered."""
        self.now = _most(self.now, dict(enumerate(offsets)))


def _most(a: Offsets, b: Offsets) -> Offsets:
    return {p: max(a.get(p, 0), b.get(p, 0)) for p in {*a, *b}}


@dataclass
class Serving:
    """The process, and what it was to remember."""

    high_water: HighWater = field(default_factory=HighWater)
    refused: int = 0
    _replies: dict[int, NodeReply] = field(default_factory=dict)
    _committed_offsets: dict[int, Answered] = field(default_factory=dict)
    _answers: dict[tuple[str, int], Answered] = field(default_factory=dict)

    def read(
        self,
        node: int,
        unit: StoreUnit,
        entity: int,
        metadata: StoreMetadata,
        server_run: ServerRun,
        base: list[int],
    ) -> str | None:
        """Asks for what has this base now; what is wrong with being answered, or refused."""
        reply = self._replies.get(node)
        if reply is None or reply.metadata != metadata or reply.server_run != server_run:
            # each connection has metadata of its own
            reply = self._replies[node] = NodeReply(0, replace(metadata), server_run)
        run, name = (server_run, metadata.store_id), unit.storage_fingerprint
        committed_offsets = self._committed_offsets.setdefault(node, Answered())
        committed = [metadata.committed.get(topic_partition(p)) for p in range(len(base))]
        answers = self._answers.setdefault((name, entity), Answered())
        marked = [
            p
            for p, offset in enumerate(committed)
            if metadata.lost_offsets.get(topic_partition(p)) > offset
        ]
        lacks = (
            committed_offsets.lacks(run, committed)
            or answers.lacks(run, base)
            or (f"by the metadata at {marked}" if marked else None)
        )
        committed_offsets.given(committed)
        answered = offset_vector(*base)
        if reply.metadata.committed.dominates(answered):
            answered = reply.metadata.committed  # as a service has it that reads nothing beyond
        at = self.high_water.of_node(node)
        refused = bool(at.after(SOURCES, reply.metadata, server_run)) or (
            at.answering(name, [(tag(entity), answered)], reply.metadata.committed, reply)
            is not None
        )
        if refused:
            self.refused += 1
            return None if lacks else "it was refused, and lacks nothing that was answered before"
        answers.given(base)
        return None if lacks is None else f"what was answered before a loss was taken back: {lacks}"
