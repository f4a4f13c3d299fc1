"""All plays with what can be removed from them, and all meetings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.simulation.histories.play import History, Play
from tests.simulation.histories.seeds import SEEDS
from tests.simulation.mutants import lifetimes as lifetime_mutants
from tests.simulation.mutants import lists as list_mutants
from tests.simulation.mutants import nodes as node_mutants
from tests.simulation.mutants import realtime as realtime_mutants
from tests.simulation.mutants import served as served_mutants
from tests.simulation.mutants import slices as mutants
from tests.simulation.mutants import versions as version_mutants
from tests.simulation.mutants.rules import Mutant
from tests.simulation.stops import lifetimes as lifetime_stops
from tests.simulation.stops import meetings
from tests.simulation.stops import nodes as node_stops
from tests.simulation.stops.pairs import Meeting, Met
from tests.simulation.stops.versions import VERSIONS
from tests.simulation.worlds import (
    history,
    lifetime_play,
    lists,
    nodes,
    realtime,
    realtime_lifetime,
    realtime_lists,
    repeats,
    schemas,
    versions_play,
)


@dataclass(frozen=True)
class Entry:
    """A play and its mutants. paused: meetings that the mutants are played through which random
    histories meet too rarely; histories: how many the suite plays."""

    play: Play[Any]
    mutants: Mapping[str, Mutant]
    paused: tuple[Meeting[Any], ...] = ()
    histories: int = 50

    @property
    def name(self) -> str:
        return self.play.name

    @property
    def met(self) -> dict[str, Mutant]:
        return {rule: mutant for rule, mutant in self.mutants.items() if mutant.met}

    @property
    def unmet(self) -> dict[str, Mutant]:
        return {rule: mutant for rule, mutant in self.mutants.items() if not mutant.met}

    def search(self, rule: str, most: int) -> History | None:
        """The first history that goes wrong without the rule: a seed that is known to, or one of so
        many."""
        with self.mutants[rule].removed() as rules:
            for seed in (SEEDS.get(self.name, {}).get(rule, 0), *range(most)):
                history = self.play.history(seed, rules)
                if history.wrong is not None:
                    return history
        return None

    def meet(self, rule: str) -> tuple[str, Met] | None:
        """The first pair of stops that goes wrong without the rule, and in which meeting."""
        with self.mutants[rule].removed() as rules:
            for alone in (True, False):
                for meeting in self.paused:
                    _, met = meeting.wrong(rules, alone)
                    if met is not None:
                        return meeting.name, met
        return None


_ALL: tuple[Entry, ...] = (
    Entry(history.PLAY, mutants.MUTANTS | served_mutants.OF_SLICES, meetings.TRIM),
    Entry(realtime.PLAY, realtime_mutants.MUTANTS | served_mutants.MUTANTS),
    Entry(lists.PLAY, list_mutants.MUTANTS, histories=60),
    Entry(realtime_lists.PLAY, list_mutants.REALTIME_MUTANTS, histories=30),
    Entry(lifetime_play.PLAY, lifetime_mutants.MUTANTS, (lifetime_stops.LATE,), histories=40),
    Entry(realtime_lifetime.PLAY, realtime_mutants.OF_LIFETIMES, histories=20),
    Entry(repeats.PLAY, repeats.MUTANTS, histories=15),
    Entry(schemas.PLAY, schemas.MUTANTS, histories=60),
    Entry(versions_play.PLAY, version_mutants.MUTANTS, histories=30),
    Entry(nodes.PLAY, node_mutants.MUTANTS, histories=15),
    Entry(nodes.LIFETIMES, node_mutants.OF_LIFETIMES, node_stops.BESIDE, histories=10),
    Entry(nodes.LISTS, node_mutants.OF_LISTS, histories=20),
)
ENTRIES: Mapping[str, Entry] = {entry.name: entry for entry in _ALL}
_MEETINGS: tuple[Meeting[Any], ...] = (
    *meetings.TRIM,
    *meetings.EVERYBODY,
    *meetings.REALTIME,
    *meetings.LOSSES,
    lifetime_stops.LATE,
    *node_stops.BESIDE,
    *VERSIONS,
)
MEETINGS: Mapping[str, Meeting[Any]] = {meeting.name: meeting for meeting in _MEETINGS}


def rules() -> Iterator[tuple[Entry, str]]:
    """Every rule of every play."""
    for entry in ENTRIES.values():
        for rule in entry.mutants:
            yield entry, rule
