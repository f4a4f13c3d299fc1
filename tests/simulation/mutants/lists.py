"""Mutants without a rule of event lists, with and without the real-time lane."""

from __future__ import annotations

from typing import Any

from slicewise.features.declare.event_list import EventList
from slicewise.stores.online import keys
from slicewise.stores.online.memory import store as memory
from slicewise.stores.online.rules import decisions
from tests.simulation.mutants.rules import Mutant, Patches, flag, patched
from tests.simulation.worlds.lists import LATE_US

surplus = decisions.surplus


def surplus_by_time(keeps: EventList, total: int, older: int, before: int) -> tuple[int, int]:  # noqa: ARG001
    """Trims by time alone, also what a rows window needs."""
    return surplus(
        EventList(LATE_US, 0, keeps.late_us, keeps.most) if keeps.rows else keeps,
        total,
        before,
        before,
    )


def without_room(keeps: EventList, total: int, older: int, before: int) -> tuple[int, int]:
    """Never cuts."""
    drop, cut = surplus(keeps, total, older, before)
    return drop - cut, 0


def without_store_id() -> Patches:
    one, other = keys.list_key, keys.members_key
    return (
        (keys, "list_key", lambda store_id, tag, unit: one(0, tag, unit)),  # noqa: ARG005
        (keys, "members_key", lambda store_id, tag, unit: other(0, tag, unit)),  # noqa: ARG005
    )


def lax(world: Any) -> None:
    world.server.lax_lists = True


def without_applied_offset(world: Any) -> None:
    world.server.applied_offsets = False


LOW_WATER = Mutant(
    "event lists",
    "nothing at or below the low-water mark comes back",
    patched(decisions, "above_low_water", lambda members, low: members),  # noqa: ARG005
)
MUTANTS: dict[str, Mutant] = {
    "low-water": LOW_WATER,
    "mark": Mutant(
        "event lists", "what is trimmed moves the low-water mark", patched(memory, "LOW", b"-")
    ),
    "rows": Mutant(
        "event lists",
        "what a rows window needs is kept",
        patched(decisions, "surplus", surplus_by_time),
    ),
    "room": Mutant(
        "event lists",
        "a list holds no more than it has room for",
        patched(decisions, "surplus", without_room),
    ),
    "rebuild": Mutant(
        "builds",
        "a list that is to keep more is built again",
        patched(decisions, "lists_to_rebuild", lambda units, metadata: set()),  # noqa: ARG005
    ),
    "list-store-id": Mutant("metadata", "every key names the store id", without_store_id),
    "list-compare": Mutant(
        "event lists", "applied offset and mark stand as they were read", world=lax
    ),
}
# That the real-time lane leaves out what is below the start offsets has none here: a list holds an
# event once, whoever adds it, and what makes it too old is newer events of the entity, which are
# there in the end either way.
REALTIME_MUTANTS: dict[str, Mutant] = {
    "low-water": LOW_WATER,
    "applied-offset": Mutant(
        "event lists",
        "the real-time lane adds only beyond the list's applied offset",
        world=without_applied_offset,
    ),
    "start": Mutant(
        "real-time write",
        "the real-time lane begins at or before the micro-batch lane's committed offsets",
        world=flag("late_start"),
    ),
    "order": Mutant(
        "real-time write", "an entity's events are written in offset order", world=flag("backwards")
    ),
    "resend": Mutant(
        "a store that forgets",
        "after a break the real-time lane goes on from the first that was not acknowledged",
        world=flag("forgets"),
    ),
}
