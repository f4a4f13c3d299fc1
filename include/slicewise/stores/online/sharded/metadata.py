"""Several nodes claim together what each of them claims: no more than the one that claims least.

A number that names one of many things (generation, term, epoch) is the largest of all nodes': new ones are larger than
any node's, so that while it stands nothing was named anew on any node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.control_record import RealtimeStart, StoreMetadata, TotalUntil
from slicewise.stores.online.routing import joint_life

V = TypeVar("V")


def newest(nodes: Sequence[StoreMetadata]) -> int:
    """The node with the newest deployment; of several the first."""
    return max(range(len(nodes)), key=lambda number: (nodes[number].epoch, -number))


def merged(nodes: Sequence[StoreMetadata]) -> StoreMetadata:
    """Merges the claims of all of these nodes. `behind` names those without the newest deployment: until they have it
    no batch is applied."""
    first = nodes[newest(nodes)]
    behind = tuple(n for n, each in enumerate(nodes) if (each.epoch, each.units) != (first.epoch, first.units))
    places = frozenset.intersection(*(each.places for each in nodes))
    ready = frozenset.intersection(*(each.ready for each in nodes))
    return StoreMetadata(
        generation=max(each.generation for each in nodes),
        epoch=first.epoch,
        units=first.units,
        places=places,
        ledger=least([each.ledger for each in nodes], places),
        starts={unit: start_of([each for each in nodes if unit in each.starts], unit) for unit in first.starts},
        ready=ready,
        building=_building(nodes, ready),
        aliases=_alike([each.aliases for each in nodes]),
        topics=first.topics,
        terms=_largest([each.terms for each in nodes]),
        retired=max(each.retired for each in nodes),
        keeps=first.keeps,
        horizons=_horizons(nodes),
        tails=_tails(nodes),
        known=joined([each.known for each in nodes]),
        set_id=first.set_id,
        behind=behind,
        nodes=tuple(nodes),
    )


def least(covers: Sequence[OffsetVector], places: frozenset[TopicPartition]) -> OffsetVector:
    """The cover of what all of these contain."""
    return OffsetVector({place: min(each.get(place) for each in covers) for place in places})


def joined(covers: Sequence[OffsetVector]) -> OffsetVector:
    """The cover of what any of these contains."""
    found = OffsetVector()
    for each in covers:
        found = found.join(each)
    return found


def start_of(nodes: Sequence[StoreMetadata], unit: str) -> OffsetVector:
    """The start cover that a backfill is to be made for: that of a node where the unit is not ready, if there is one;
    else the largest."""
    for each in nodes:
        if unit not in each.ready:
            return each.starts[unit]
    return joined([each.starts[unit] for each in nodes])


def _building(nodes: Sequence[StoreMetadata], ready: frozenset[str]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for each in nodes:
        found |= {unit: done for unit, done in each.building.items() if unit not in found and unit not in ready}
    return found


def _alike(maps: Sequence[Mapping[str, V]]) -> dict[str, V]:
    """The entries that all of them have alike."""
    first, *others = maps
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}


def _largest(maps: Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in maps:
        found |= {name: max(number, found.get(name, 0)) for name, number in each.items()}
    return found


def _horizons(nodes: Sequence[StoreMetadata]) -> dict[str, TotalUntil]:
    units = frozenset.intersection(*(frozenset(each.horizons) for each in nodes))
    return {
        unit: TotalUntil(
            min(each.horizons[unit].hour for each in nodes), min(each.horizons[unit].seq for each in nodes)
        )
        for unit in units
    }


def _tails(nodes: Sequence[StoreMetadata]) -> dict[str, RealtimeStart]:
    sources = frozenset.intersection(*(frozenset(each.tails) for each in nodes))
    return {
        source: RealtimeStart(
            joint_life([each.tails[source].incarnation for each in nodes]),
            joined([each.tails[source].start for each in nodes]),
        )
        for source in sources
    }
