"""A history is a world and what happens in it, move after move, each drawn by its weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Generic, TypeVar

from slicewise.errors import (
    CommitConflict,
    DataLoss,
    DeploymentSuperseded,
    GapRefused,
    NotReady,
    StoreUnavailable,
)
from tests.simulation.histories import timeline
from tests.simulation.histories.choices import Choices, Tape
from tests.simulation.histories.timeline import Line
from tests.simulation.worlds.world import Actor, World, Wrong

W = TypeVar("W", bound=World)
Rules = Iterable[Callable[[Any], None]]
"""Changes of a world before its history begins, so that it lacks a rule."""

EXPECTED = (CommitConflict, DataLoss, DeploymentSuperseded, GapRefused, NotReady, StoreUnavailable)
"""Errors that a process meets in normal life; it ends, and another begins."""


@dataclass(frozen=True)
class History:
    """A history's end: what was wrong (None: nothing), how many answers were compared, the story,
    and how to play it again."""

    seed: int
    wrong: str | None
    answers: int
    story: list[Line]
    tape: Tape = field(repr=False)

    def __str__(self) -> str:
        return (
            f"{timeline.rendered(self.story)}\nseed {self.seed}, {len(self.tape.moves)} moves: "
            f"{self.wrong}"
        )


@dataclass(frozen=True)
class Play(Generic[W]):
    """A world, and what can happen in it.

    begin: before the first move; deeds: (weight, what is done), one of which is a move; after: what
    follows every move; end: what must hold in the end, or is done to make it hold.
    """

    name: str
    world: Callable[[Choices], W]
    begin: Callable[[W], None]
    deeds: Sequence[tuple[float, Callable[[W], None]]]
    after: Callable[[W], None]
    end: Callable[[W], None]
    least: int
    most: int

    def history(self, seed: int, rules: Rules = (), tape: Tape | None = None) -> History:
        """Plays a seed, or a tape that was drawn from it."""
        choices = Choices(seed, tape)
        world = self.world(choices)
        for rule in rules:
            rule(world)
        ended, wrong = False, None
        try:
            self.begin(world)
            for _ in choices.moves(self.least, self.most):
                self._deed(choices.random())(world)
                self.after(world)
            ended = True
            world.acting = "end"
            self.end(world)
        except Wrong as error:
            wrong = str(error)
        finally:
            world.close()
        return History(seed, wrong, world.checked, world.story, choices.tape(ended))

    @cached_property
    def _bounds(self) -> list[float]:
        return list(accumulate(weight for weight, _ in self.deeds))

    def _deed(self, drawn: float) -> Callable[[W], None]:
        at = drawn * self._bounds[-1]
        return next(
            deed for bound, (_, deed) in zip(self._bounds, self.deeds, strict=True) if at < bound
        )


# ------------------------------------------------------------ how actors act
def steps(group: str) -> Callable[[World], None]:
    """The deed that one actor of a group goes on until something may come between."""

    def deed(world: World) -> None:
        step(world, world.groups[group])

    return deed


def step(world: World, group: list[Actor]) -> None:
    """One of these goes on until something may come between."""
    if not group:
        return
    actor = world.rng.choice(group)
    with world.as_actor(actor):
        try:
            next(actor)
        except StopIteration:
            group.remove(actor)
        except EXPECTED as met:
            world.note(type(met).__name__, met.what)
            group.remove(actor)


def finish(
    world: World, actor: Actor, most: int = 0, until: Callable[[], bool] = lambda: False
) -> None:
    """Alone, to its end; or so many steps at most; or until something holds."""
    with world.as_actor(actor):
        try:
            for taken, _ in enumerate(actor, 1):
                if taken == most or until():
                    return
        except EXPECTED as met:
            world.note(type(met).__name__, met.what)


def joins(world: World, group: str, actor: Actor, keeping: int) -> None:
    """An actor begins; of those that it replaces so many go on beside it, as zombies."""
    world.groups[group] = [actor, *world.groups[group][:keeping]]


def advance(world: World, actor: Actor, most: int) -> bool:
    """Alone, so many steps or to its end; whether it has ended."""
    with world.as_actor(actor):
        for _ in range(most):
            try:
                next(actor)
            except StopIteration:
                return True
            except EXPECTED as met:
                world.note(type(met).__name__, met.what)
                return True
    return False
