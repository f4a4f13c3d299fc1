"""A serving process that is asked for every entity after every write: no answer is taken back by a loss of the store.

It is the service's own memory (`serving/answering/memory/high_water.py`) that refuses; whether it has to is said
by a plainer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from slicewise.serving.answering.memory.high_water import HighWater
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.operations.reading import NodeReply
from tests.support.stores.stored import StoreUnit, cover, place, tag

Life = tuple[ServerRun, int]
Offsets = dict[int, int]
"""Partition -> first offset not contained."""


class _Source(NamedTuple):
    name: str
    topic: str


SOURCES = (_Source("plays", "plays"),)


@dataclass
class Asked:
    """Answers about something, and the store's life in which they were given."""

    life: Life | None = None
    before: Offsets = field(default_factory=dict)
    """The most in earlier lives."""
    now: Offsets = field(default_factory=dict)

    def lacks(self, life: Life, found: Sequence[int]) -> str | None:
        """Tells what was answered in an earlier life and is not there; None: nothing."""
        if life != self.life:
            self.before, self.now, self.life = _most(self.before, self.now), {}, life
        behind = [p for p, offset in self.before.items() if (found[p] if p < len(found) else 0) < offset]
        return f"{list(found)} of {self.before}" if behind else None

    def given(self, found: Sequence[int]) -> None:
        """Remembers that it was answered."""
        self.now = _most(self.now, dict(enumerate(found)))


def _most(a: Offsets, b: Offsets) -> Offsets:
    return {p: max(a.get(p, 0), b.get(p, 0)) for p in {*a, *b}}


@dataclass
class Serving:
    """The process, and what it was to remember."""

    reached: HighWater = field(default_factory=HighWater)
    refused: int = 0
    _said: dict[int, NodeReply] = field(default_factory=dict)
    _ledgers: dict[int, Asked] = field(default_factory=dict)
    _answers: dict[tuple[str, int], Asked] = field(default_factory=dict)

    def ask(
        self, node: int, unit: StoreUnit, entity: int, found: StoreMetadata, incarnation: ServerRun, base: list[int]
    ) -> str | None:
        """Asks for what has this base now; what is wrong with being answered, or refused."""
        said = self._said.get(node)
        if said is None or said.marks != found or said.incarnation != incarnation:
            # each connection has marks of its own
            said = self._said[node] = NodeReply(0, replace(found), incarnation)
        life, name = (incarnation, found.generation), unit.storage_fingerprint
        ledgers = self._ledgers.setdefault(node, Asked())
        ledger = [found.ledger.get(place(p)) for p in range(len(base))]
        answers = self._answers.setdefault((name, entity), Asked())
        told = [p for p, offset in enumerate(ledger) if found.known.get(place(p)) > offset]
        lacks = (
            ledgers.lacks(life, ledger) or answers.lacks(life, base) or (f"by the marks at {told}" if told else None)
        )
        ledgers.given(ledger)
        answered = cover(*base)
        if said.marks.ledger.dominates(answered):
            answered = said.marks.ledger  # as a service has it that reads nothing beyond
        at = self.reached.of_node(node)
        refused = bool(at.after(SOURCES, said.marks, incarnation)) or (
            at.answering(name, [(tag(entity), answered)], said.marks.ledger, said) is not None
        )
        if refused:
            self.refused += 1
            return None if lacks else "it was refused, and lacks nothing that was answered before"
        answers.given(base)
        return None if lacks is None else f"what was answered before a loss was taken back: {lacks}"
