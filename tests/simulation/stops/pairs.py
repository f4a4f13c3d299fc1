"""Two actors of a small prepared world, through every pair of points at which they can stop.

Actors stop before every command of the store and around every commit of a table. Where the first
has stopped, the second acts, and stops as well; then both go on. Or the first has died, and the
second goes on alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

from tests.simulation.histories import timeline
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import Rules, advance
from tests.simulation.histories.timeline import Line
from tests.simulation.worlds.world import Actor, World, Wrong

W = TypeVar("W", bound=World)
MOST = 200
"""More steps than an actor has that comes to an end."""


class Met(NamedTuple):
    """A pair of stops, and what was wrong after it."""

    first: int
    second: int
    dies: bool
    wrong: str | None
    story: list[Line]

    @property
    def stops(self) -> str:
        if self.dies:
            return f"the first dies after {self.first} steps"
        return f"the first stops after {self.first} steps, the second after {self.second}"

    def __str__(self) -> str:
        return f"{timeline.rendered(self.story)}\n{self.stops}: {self.wrong}"


@dataclass(frozen=True)
class Meeting(Generic[W]):
    """Meeting of two actors in a world. between: what happens once the first has stopped; end: what
    must hold then, or is done to make it hold; dying: whether the first also dies where it
    stopped."""

    name: str
    world: Callable[[Choices], W]
    prepare: Callable[[W], None]
    first: Callable[[W], Actor]
    second: Callable[[W], Actor]
    end: Callable[[W], None]
    between: Callable[[W], None] = World.check
    dying: bool = True
    _true: dict[tuple[Any, ...], list[int]] = field(default_factory=dict)

    def wrong(self, rules: Rules = (), alone: bool = False) -> tuple[int, Met | None]:
        """Counts the pairs that were played, and finds the first that is wrong. alone: only those
        in which the first dies."""
        played = 0
        self._true.clear()  # without a rule other things may be true
        for met in self.pairs(rules, alone):
            played += 1
            if met.wrong is not None:
                return played, met
        return played, None

    def pairs(self, rules: Rules = (), alone: bool = False) -> Iterator[Met]:
        for i in count():
            met, ended, _ = self._play(i, MOST, self.dying, rules)
            yield met
            for j in () if alone else count():
                met, ended, second_ended = self._play(i, j, False, rules)
                yield met
                if second_ended:
                    break
            if ended:
                break

    def _play(self, i: int, j: int, dies: bool, rules: Rules) -> tuple[Met, bool, bool]:
        world = self.world(Choices(pausing=True))
        world.shared, world.true = True, self._true
        for rule in rules:
            rule(world)
        wrong, ended = None, [True, True]
        try:
            self.prepare(world)
            first = self.first(world)
            ended[0] = advance(world, first, i)
            self.between(world)
            second = self.second(world)
            ended[1] = advance(world, second, j)
            if not dies:
                advance(world, first, MOST)
            advance(world, second, MOST)
            world.acting = "end"
            self.end(world)
        except Wrong as error:
            wrong = str(error)
        finally:
            world.close()
        return Met(i, j, dies, wrong, world.story), ended[0], ended[1]
