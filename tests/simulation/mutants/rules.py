"""A rule is held by a history that goes wrong without it: a mutant removes exactly one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from slicewise.stores.online.steps import Change

Patches = Sequence[tuple[Any, str, Any]]
"""Replacements: (where, name, what stands there without the rule)."""


@dataclass(frozen=True)
class Mutant:
    """Mutant without a rule. section: the part of the protocol; rule: what holds with it, in words;
    met: at random it is met often enough to be found so, else it is played through every pair of
    stops (`stops`)."""

    section: str
    rule: str
    patches: Callable[[], Patches] = tuple
    world: Callable[[Any], None] | None = None
    met: bool = True

    @contextmanager
    def removed(self) -> Iterator[tuple[Callable[[Any], None], ...]]:
        """Without this rule; what is left to do to each world."""
        with ExitStack() as stack:
            for where, name, value in self.patches():
                stack.enter_context(patch.object(where, name, value))
            yield () if self.world is None else (self.world,)


def patched(where: Any, name: str, value: Any) -> Callable[[], Patches]:
    return lambda: [(where, name, value)]


def unchecked(wanted: Callable[[Change, bytes], bool]) -> Callable[[Any], None]:
    """A store that does not look at some of what a change has checked."""

    def apply(world: Any) -> None:
        world.server.unchecked = wanted

    return apply


def flag(name: str, value: Any = True) -> Callable[[Any], None]:
    return lambda world: setattr(world, name, value)
