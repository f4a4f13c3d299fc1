"""Several nodes claim together what each of them claims: no more than the one that claims least.

A number that names one of many things (store id, build, deployment version) is the largest of all
nodes': new ones are larger than any node's, so that while it stands nothing was named anew on any
node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from slicewise.offsets.vector import OffsetVector, TopicPartition, joined
from slicewise.stores.online.control_record import RealtimeStart, StoreMetadata, TotalUntil
from slicewise.stores.online.sharded.routing import sharded_server_run

V = TypeVar("V")


def newest(nodes: Sequence[StoreMetadata]) -> int:
    """The node with the newest deployment; of several the first."""
    return max(range(len(nodes)), key=lambda number: (nodes[number].deployment_version, -number))


def merged(nodes: Sequence[StoreMetadata]) -> StoreMetadata:
    """Merges the claims of all of these nodes. `behind` names those without the newest deployment:
    until they have it no batch is applied."""
    first = nodes[newest(nodes)]
    behind = tuple(
        n
        for n, node in enumerate(nodes)
        if (node.deployment_version, node.units) != (first.deployment_version, first.units)
    )
    topic_partitions = frozenset.intersection(*(node.topic_partitions for node in nodes))
    ready = frozenset.intersection(*(node.ready for node in nodes))
    return StoreMetadata(
        store_id=max(node.store_id for node in nodes),
        deployment_version=first.deployment_version,
        units=first.units,
        topic_partitions=topic_partitions,
        committed=least([node.committed for node in nodes], topic_partitions),
        starts={
            unit: start_of([node for node in nodes if unit in node.starts], unit)
            for unit in first.starts
        },
        ready=ready,
        building=_building(nodes, ready),
        aliases=_alike([node.aliases for node in nodes]),
        topics=first.topics,
        builds=_largest([node.builds for node in nodes]),
        retired=max(node.retired for node in nodes),
        keeps=first.keeps,
        totals_until=_totals_until(nodes),
        realtime_starts=_realtime_starts(nodes),
        lost_offsets=joined([node.lost_offsets for node in nodes]),
        set_id=first.set_id,
        behind=behind,
        nodes=tuple(nodes),
    )


def least(
    offset_vectors: Sequence[OffsetVector], topic_partitions: frozenset[TopicPartition]
) -> OffsetVector:
    """The offset vector of what all of these contain."""
    return OffsetVector(
        {
            topic_partition: min(
                offset_vector.get(topic_partition) for offset_vector in offset_vectors
            )
            for topic_partition in topic_partitions
        }
    )


def start_of(nodes: Sequence[StoreMetadata], unit: str) -> OffsetVector:
    """The start offsets that a backfill is to be made for: that of a node where the unit is not
    ready, if there is one; else the largest."""
    for node in nodes:
        if unit not in node.ready:
            return node.starts[unit]
    return joined([node.starts[unit] for node in nodes])


def _building(nodes: Sequence[StoreMetadata], ready: frozenset[str]) -> dict[str, tuple[int, int]]:
    building: dict[str, tuple[int, int]] = {}
    for node in nodes:
        building |= {
            unit: done
            for unit, done in node.building.items()
            if unit not in building and unit not in ready
        }
    return building


def _alike(maps: Sequence[Mapping[str, V]]) -> dict[str, V]:
    """The entries that all of them have alike."""
    first, *others = maps
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }


def _largest(maps: Sequence[Mapping[str, int]]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for mapping in maps:
        largest |= {name: max(number, largest.get(name, 0)) for name, number in mapping.items()}
    return largest


def _totals_until(nodes: Sequence[StoreMetadata]) -> dict[str, TotalUntil]:
    units = frozenset.intersection(*(frozenset(node.totals_until) for node in nodes))
    return {
        unit: TotalUntil(
            min(node.totals_until[unit].hour for node in nodes),
            min(node.totals_until[unit].archive_version for node in nodes),
        )
        for unit in units
    }


def _realtime_starts(nodes: Sequence[StoreMetadata]) -> dict[str, RealtimeStart]:
    sources = frozenset.intersection(*(frozenset(node.realtime_starts) for node in nodes))
    return {
        source: RealtimeStart(
            sharded_server_run([node.realtime_starts[source].server_run for node in nodes]),
            joined([node.realtime_starts[source].start for node in nodes]),
        )
        for source in sources
    }
