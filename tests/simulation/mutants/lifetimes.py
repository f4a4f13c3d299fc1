"""Mutants without a rule of lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.lifetime import Move, Reached
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.operation import NodeContext
from slicewise.stores.online.operations import publish_total as stored
from slicewise.stores.online.operations.publish_hour import PublishHour
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision
from slicewise.stores.online.steps import Change, KeyChange
from tests.simulation.mutants.rules import Mutant, Patches, patched, unchecked
from tests.simulation.worlds.lifetime import LifetimeWorld

decision, check_lifetime, next_move = decisions.lifetime_decision, decisions.check_lifetime, moves.next_move


def ahead(seq: int, cover: OffsetVector, start: OffsetVector, ledger: OffsetVector) -> None:  # noqa: ARG001
    check_lifetime(seq, cover, start, cover)


def lenient(*left_out: str) -> Callable[..., Any]:
    """A decision that does not look at some of what it is told."""

    def decide(
        horizon: int, seq: int, cover: OffsetVector, since: int | None, stands: Any, compacted: Any, running: Any
    ) -> tuple[PublishDecision, tuple[bytes, ...]]:
        if "straddle" in left_out:
            action, deletes = decision(horizon, seq, cover, since, stands, compacted, ())
            below = [part.field for part in running if part.last < cover.get(part.place)]
            return action, tuple(below) if action is PublishDecision.SWAP else deletes
        return decision(
            horizon,
            seq,
            cover,
            None if "since" in left_out and stands is not None and stands[0] < horizon else since,
            None if "label" in left_out else stands,
            () if "compacted" in left_out else compacted,
            running,
        )

    return decide


def added_to_anything(
    horizon: int, seq: int, cover: OffsetVector, since: int | None, stands: Any, compacted: Any, running: Any
) -> tuple[PublishDecision, tuple[bytes, ...]]:
    """Adds hours from `since` on to a total that may hold some of them."""
    if since is not None and stands is not None and since < stands[0] and stands != (horizon, seq):
        return decision(horizon, seq, cover, None, None, compacted, running)
    return decision(horizon, seq, cover, since, stands, compacted, running)


def never_in_totals(self: PublishHour, at: NodeContext) -> Any:  # noqa: ARG001
    yield from ()
    return False


def none_late(hours: UnitHours, reached: Reached) -> list[int]:  # noqa: ARG001
    return []


def dirty_too(hours: UnitHours, reached: Reached | None, target: int, seq: int) -> Move | None:
    """Moves what is compacted, whatever was archived since."""
    clean = UnitHours({h: s for h, s in hours.newest.items() if h in hours.compacted}, hours.compacted, {})
    newest = {h: min(s, hours.compacted[h].holds) for h, s in clean.newest.items()}
    return next_move(UnitHours(newest, hours.compacted, {}), reached, target, seq)


def named_without_totals() -> Patches:
    honest = UnitHours.named
    return ((UnitHours, "named", lambda self: [each for each in honest(self) if each[0] not in self.totals]),)


def guards_in_a_bring(change: Change, field: bytes) -> bool:
    return field.startswith(b"l:") and keys.LIFETIME in [name for name, _, _ in change.keys[0].sets]


def announced_in_a_mark(change: Change, field: bytes) -> bool:
    return field == decisions.ANNOUNCED and any(name.startswith(b"h:") for name, _, _ in change.keys[0].sets)


def expiring(world: LifetimeWorld) -> None:
    world.server.guards_expire = True


def emptied_without_delete(day: bytes, raw: bytes) -> KeyChange:
    return KeyChange(day, [(keys.HOURS, b"=" + raw)])


MUTANTS: dict[str, Mutant] = {
    "total-ledger": Mutant(
        "lifetime", "a total never runs ahead of the ledger", patched(decisions, "check_lifetime", ahead)
    ),
    "total-straddle": Mutant(
        "lifetime",
        "an entity is left over whose partial straddles the cover",
        patched(decisions, "lifetime_decision", lenient("straddle")),
    ),
    "total-monotone": Mutant(
        "lifetime",
        "an older total never replaces a newer",
        patched(decisions, "lifetime_decision", lenient("label")),
    ),
    "total-compacted": Mutant(
        "lifetime",
        "an hour that was swapped from a newer archive does not leave its day",
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
    "total-guards": Mutant(
        "lifetime", "no guard moved since the partials were read", world=unchecked(guards_in_a_bring)
    ),
    "total-named": Mutant("covers", "the seqs that totals name are not trimmed", named_without_totals),
    "swap-below": Mutant(
        "lifetime",
        "no hour below the horizon is swapped",
        patched(PublishHour, "_is_in_totals", never_in_totals),
        met=False,
    ),
    "late": Mutant("lifetime", "late events below the horizon are brought", patched(moves, "late_hours", none_late)),
    "dirty": Mutant("lifetime", "a horizon moves only over clean hours", patched(moves, "next_move", dirty_too)),
    "horizon-count": Mutant(
        "lifetime",
        "a horizon is marked while nothing else was announced",
        world=unchecked(announced_in_a_mark),
        met=False,
    ),
    "guards-expire": Mutant("lifetime", "guards of a unit with a lifetime do not expire", world=expiring),
}
