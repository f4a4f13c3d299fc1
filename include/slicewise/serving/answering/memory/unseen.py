"""A read that finds nothing of an entity is told from one without events in the windows asked
for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewise.serving.answering.catalog import Selection
from slicewise.stores.online.operations.reading import UnitReply

_NONE: Mapping[int, tuple[str, ...]] = {}


def views_without_data(
    selection: Selection,
    targets: Sequence[tuple[int, int, int | None]],
    replies: Sequence[Sequence[UnitReply]],
    entities: int,
) -> Mapping[int, tuple[str, ...]]:
    """Entity -> the views of which the read found nothing, in no partition and no unit; most reads:
    of none.

    It takes no further read: an applied offset stands in an entity's hot hash for as long as the
    store keeps any of its events that came by the stream. targets: (group, entity, partition) of
    each reply; a per-partition group has none of a topic without an applied event.
    """
    per_partition = any(group[1] for group in selection.groups)
    if not per_partition and _all_hot(replies):
        return _NONE  # of almost every read
    empty = [
        (group, entity, position)
        for (group, entity, _), units in zip(targets, replies, strict=True)
        for position, unit in enumerate(units)
        if not unit.hot and not _has_any(unit)
    ]
    groups = {group for group, _, _ in targets} if per_partition else set()
    bare = [part for part in selection.parts if part.group not in groups] if per_partition else []
    if not empty and not bare:
        return _NONE
    names = {(part.group, part.position): part.unit.view for part in selection.parts}
    nothing = {(entity, names[group, position]): None for group, entity, position in empty}
    nothing |= {(entity, part.unit.view): None for part in bare for entity in range(entities)}
    absent = {entity for entity, _ in nothing}
    for (group, entity, _), units in zip(targets, replies, strict=True):
        if entity in absent:
            for position, unit in enumerate(units):
                if unit.hot or _has_any(unit):
                    nothing.pop((entity, names[group, position]), None)
    unseen: dict[int, tuple[str, ...]] = {}
    for entity, view in sorted(nothing):
        unseen[entity] = (*unseen.get(entity, ()), view)
    return unseen


def _all_hot(replies: Sequence[Sequence[UnitReply]]) -> bool:
    """Tells whether all hot hashes hold something."""
    for units in replies:
        for unit in units:
            if not unit[0]:
                return False
    return True


def _has_any(unit: UnitReply) -> bool:
    return any(value is not None for day in unit.days for value in day)
