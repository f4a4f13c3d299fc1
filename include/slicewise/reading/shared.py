"""Entities of a read that have the same tag are read once, and answered alike: of a hundred routes
most have their carrier in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slicewise.reading.exchange import Target


class SharedTags(NamedTuple):
    """The tags of a read, each once."""

    targets: list[Target]
    tags: list[bytes]
    nodes: list[int]
    """Per tag the node that has it; empty: the store has one."""
    positions: list[int]
    """Per target that was given where its tag stands."""
    alike: Mapping[int, Sequence[int]]
    """Group -> per entity the first one with its tag; without groups of which no two are alike."""


def shared_tags(
    targets: Sequence[Target], tags: Sequence[bytes], nodes: Sequence[int]
) -> SharedTags | None:
    """The tags, each once; None where each stands once already."""
    at: dict[tuple[int, int | None, bytes], int] = {}
    kept: list[int] = []
    positions: list[int] = []
    alike: dict[int, list[int]] = {}
    for number, ((group, entity, partition), tag) in enumerate(zip(targets, tags, strict=True)):
        key = (group, partition, tag)
        position = at.get(key)
        if position is None:
            position = at[key] = len(kept)
            kept.append(number)
        positions.append(position)
        firsts = alike.setdefault(group, [])
        if entity == len(firsts):  # those of a group's first partition say it for all
            firsts.append(targets[kept[position]][1])
    if len(kept) == len(tags):
        return None
    return SharedTags(
        [targets[i] for i in kept],
        [tags[i] for i in kept],
        [nodes[i] for i in kept] if nodes else [],
        positions,
        {g: firsts for g, firsts in alike.items() if firsts != list(range(len(firsts)))},
    )
