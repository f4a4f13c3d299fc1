"""Every draw of a history is recorded under the move that it belongs to: replayed, with any move
left out, it is another history.

A move that is replayed may ask for more than was recorded, since others are missing before it. It
is then answered that nothing special happens: nothing comes between, as much as can be, the last of
those to choose from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, MutableSequence, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Draws = tuple[float, ...]
NOTHING_SPECIAL = 1 - 2**-53


class Tape(NamedTuple):
    """Draws that were made: before the first move, in each move, and after the last."""

    before: Draws
    moves: tuple[Draws, ...]
    after: Draws = ()


class Choices:
    """Draws of a seed (tape None), or those of a tape. pausing: actors always pause where they may,
    and nothing else is drawn."""

    def __init__(self, seed: int = 0, tape: Tape | None = None, pausing: bool = False) -> None:
        self._random = random.Random(seed)
        self._tape = Tape((), ()) if pausing else tape
        self._pausing = pausing
        self._drawn: list[list[float]] = [[]]
        self._left = iter(() if self._tape is None else self._tape.before)

    @property
    def move(self) -> int:
        """The move that is played, from 1; 0 before the first."""
        return len(self._drawn) - 1

    def moves(self, least: int, most: int) -> Iterator[None]:
        """The moves of a history, one at a time: about as many, or those of the tape."""
        given = None if self._tape is None else self._tape.moves
        drawn = (
            least + int(self._random.random() * (most - least + 1)) if given is None else len(given)
        )
        for i in range(drawn):
            self._begin(() if given is None else given[i])
            yield
        self._begin(() if self._tape is None else self._tape.after)

    def tape(self, ended: bool) -> Tape:
        """The draws so far. ended: the last draws came after the last move."""
        before, *moves = map(tuple, self._drawn)
        after = moves.pop() if ended else ()
        return Tape(before, tuple(moves), after)

    def _begin(self, draws: Draws) -> None:
        self._drawn.append([])
        self._left = iter(draws)

    def random(self) -> float:
        """In [0, 1)."""
        drawn = self._random.random() if self._tape is None else next(self._left, NOTHING_SPECIAL)
        self._drawn[-1].append(drawn)
        return drawn

    def pauses(self) -> bool:
        """Tells whether something may come between."""
        return self._pausing or self.random() < 0.6

    def randrange(self, end: int) -> int:
        return int(self.random() * end)

    def randint(self, first: int, last: int) -> int:
        return first + self.randrange(last - first + 1)

    def choice(self, some: Sequence[T]) -> T:
        return some[self.randrange(len(some))]

    def shuffle(self, some: MutableSequence[T]) -> None:
        for i in range(len(some) - 1, 0, -1):
            j = self.randrange(i + 1)
            some[i], some[j] = some[j], some[i]

    def sample(self, some: Sequence[T], count: int) -> list[T]:
        left = list(some)
        self.shuffle(left)
        return left[:count]
