"""Mutants without a rule of lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.lifetime import Move, TotalsClaim
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.operations import publish_total as stored
from slicewise.stores.online.operations.publish_days import PublishDays
from slicewise.stores.online.port import NodeContext
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision
from slicewise.stores.online.steps import Change, KeyChange
from tests.simulation.mutants.rules import Mutant, Patches, patched, unchecked
from tests.simulation.worlds.lifetime import LifetimeWorld

decision, check_lifetime, next_move = (
    decisions.lifetime_decision,
    decisions.check_lifetime,
    moves.next_move,
)


def beyond_committed(
    archive_version: int,
    offset_vector: OffsetVector,
    start: OffsetVector,
    committed: OffsetVector,  # noqa: ARG001
) -> None:
    check_lifetime(archive_version, offset_vector, start, offset_vector)


def lenient(*left_out: str) -> Callable[..., Any]:
    """A decision that does not look at some of what it is told."""

    def decide(
        total_until: int,
        archive_version: int,
        offset_vector: OffsetVector,
        since: int | None,
        current: Any,
        compacted: Any,
        running: Any,
    ) -> tuple[PublishDecision, tuple[bytes, ...]]:
        if "straddle" in left_out:
            action, deletes = decision(
                total_until, archive_version, offset_vector, since, current, compacted, ()
            )
            below = [
                part.field
                for part in running
                if part.last < offset_vector.get(part.topic_partition)
            ]
            return action, tuple(below) if action is PublishDecision.PUBLISH else deletes
        return decision(
            total_until,
            archive_version,
            offset_vector,
            None
            if "since" in left_out and current is not None and current[0] < total_until
            else since,
            None if "label" in left_out else current,
            () if "compacted" in left_out else compacted,
            running,
        )

    return decide


def added_to_anything(
    total_until: int,
    archive_version: int,
    offset_vector: OffsetVector,
    since: int | None,
    current: Any,
    compacted: Any,
    running: Any,
) -> tuple[PublishDecision, tuple[bytes, ...]]:
    """Adds hours from `since` on to a total that may hold some of them."""
    if (
        since is not None
        and current is not None
        and since < current[0]
        and current != (total_until, archive_version)
    ):
        return decision(total_until, archive_version, offset_vector, None, None, compacted, running)
    return decision(total_until, archive_version, offset_vector, since, current, compacted, running)


def never_in_totals(self: PublishDays, at: NodeContext) -> Any:  # noqa: ARG001
    yield from ()
    return None


def none_late(hours: UnitHours, claim: TotalsClaim) -> list[int]:  # noqa: ARG001
    return []


def dirty_too(
    hours: UnitHours, claim: TotalsClaim | None, target: int, archive_version: int
) -> Move | None:
    """Moves what is compacted, whatever was archived since."""
    clean = UnitHours(
        {h: s for h, s in hours.newest.items() if h in hours.compacted}, hours.compacted, {}
    )
    newest = {h: min(s, hours.compacted[h].holds) for h, s in clean.newest.items()}
    return next_move(UnitHours(newest, hours.compacted, {}), claim, target, archive_version)


def named_without_totals() -> Patches:
    honest = UnitHours.named
    return (
        (
            UnitHours,
            "named",
            lambda self: [entry for entry in honest(self) if entry[0] not in self.totals],
        ),
    )


def applied_offsets_in_a_total(change: Change, field: bytes) -> bool:
    return field.startswith(b"l:") and keys.LIFETIME in [name for name, _, _ in change.keys[0].sets]


def announced_in_the_metadata(change: Change, field: bytes) -> bool:
    return field == decisions.ANNOUNCED and any(
        name.startswith(b"h:") for name, _, _ in change.keys[0].sets
    )


def expiring(world: LifetimeWorld) -> None:
    world.server.applied_offsets_expire = True


def emptied_without_delete(day: bytes, raw: bytes) -> KeyChange:
    return KeyChange(day, [(keys.HOURS, b"=" + raw)])


MUTANTS: dict[str, Mutant] = {
    "total-committed": Mutant(
        "lifetime",
        "a total never runs ahead of the committed offsets",
        patched(decisions, "check_lifetime", beyond_committed),
    ),
    "total-straddle": Mutant(
        "lifetime",
        "an entity is left over whose partial straddles the offset vector",
        patched(decisions, "lifetime_decision", lenient("straddle")),
    ),
    "total-monotone": Mutant(
        "lifetime",
        "an older total never replaces a newer",
        patched(decisions, "lifetime_decision", lenient("label")),
    ),
    "total-compacted": Mutant(
        "lifetime",
        "an hour that was published from a newer archive does not leave its day",
        patched(decisions, "lifetime_decision", lenient("compacted")),
        met=False,
    ),
    "total-since": Mutant(
        "lifetime",
        "hours are added to a total that holds none of them",
        patched(decisions, "lifetime_decision", added_to_anything),
    ),
    "total-days": Mutant(
        "lifetime",
        "hours leave their day when the total takes them",
        patched(stored, "_emptied", emptied_without_delete),
    ),
    "total-applied": Mutant(
        "lifetime",
        "no applied offset moved since the partials were read",
        world=unchecked(applied_offsets_in_a_total),
    ),
    "total-named": Mutant(
        "offset vectors",
        "the archive versions that totals name are not trimmed",
        named_without_totals,
    ),
    "publish-below": Mutant(
        "lifetime",
        "no hour below the total-until hour is published",
        patched(PublishDays, "_total_until", never_in_totals),
        met=False,
    ),
    "late": Mutant(
        "lifetime",
        "late events below the total-until hour are brought",
        patched(moves, "late_hours", none_late),
    ),
    "dirty": Mutant(
        "lifetime",
        "a total-until hour moves only over clean hours",
        patched(moves, "next_move", dirty_too),
    ),
    "total-until-count": Mutant(
        "lifetime",
        "a total-until hour is marked while nothing else was announced",
        world=unchecked(announced_in_the_metadata),
        met=False,
    ),
    "applied-expire": Mutant(
        "lifetime", "applied offsets of a unit with a lifetime do not expire", world=expiring
    ),
}
