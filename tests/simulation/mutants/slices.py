"""Mutants without a rule of slices, marks, terms, covers or the sweep."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicewise import codec
from slicewise.errors import EpochSuperseded, GapRefused
from slicewise.lifecycle import sweep
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.sweep import Finding, SweepRules, Verdict
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading import plan as reading_plan
from slicewise.stores.online import control_record, keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.operation import NodeContext
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    ReadArchiveVersions,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import HoldBuilds
from slicewise.stores.online.operations.reading import Read, ReadReply
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision, Running
from slicewise.stores.online.steps import Change
from slicewise.windows.segments import Segments, segments
from tests.simulation.actors import slices as actors
from tests.simulation.mutants.rules import Mutant, Patches, flag, patched, unchecked
from tests.simulation.worlds.world import FIRST_HOUR, HOURS, World

check_batch, swap_decision = decisions.check_batch, decisions.swap_decision
trim = TrimArchiveVersions.steps
hour_floor, check_standing = decisions.hour_floor, decisions.check_standing


def without(error: type[Exception]) -> Callable[..., None]:
    """The check of a batch, lenient in one respect."""

    def lenient(*arguments: Any) -> None:
        try:
            check_batch(*arguments)
        except error:
            return

    return lenient


def never(action: PublishDecision) -> Callable[..., tuple[PublishDecision, tuple[bytes, ...]]]:
    """A swap that goes on where the rule would stop it."""

    def lenient(
        seq: int, cover: OffsetVector, current: int | None, running: Sequence[Running]
    ) -> tuple[PublishDecision, tuple[bytes, ...]]:
        decided, deletes = swap_decision(seq, cover, current, running)
        if decided is action:
            return PublishDecision.SWAP, tuple(p.field for p in running if p.last < cover.get(p.place))
        return decided, deletes

    return lenient


def floor_without_cover(place: TopicPartition, start: OffsetVector, *_: Any) -> int:
    return start.get(place)


def floor_without_start(
    place: TopicPartition, start: OffsetVector, hours: Mapping[int, int], covers: Mapping[int, OffsetVector], hour: int
) -> int:
    if hours.get(hour) == decisions.START_SEQ:
        return start.get(place)  # swapped: that it is compacted is another rule
    return hour_floor(place, OffsetVector(), hours, covers, hour)


def keep_beyond_floor(offsets: Any, last: Any, floors: Any) -> Any:  # noqa: ARG001
    return np.asarray(offsets >= floors)


def read_with_a_kept_ledger() -> Any:
    """A reader that keeps the ledger of an earlier life."""
    honest = Read.reply
    newest: list[StoreMetadata] = []

    def read_reply(self: Read, at: NodeContext, replies: Any) -> ReadReply:
        reply = honest(self, at, replies)
        said = reply.only
        if newest and newest[0].generation == said.marks.generation:
            kept = newest[0]
            if kept.ledger.dominates(said.marks.ledger):
                mixed = StoreMetadata(**{**said.marks.__dict__, "ledger": kept.ledger})
                return ReadReply({0: said._replace(marks=mixed)}, reply.entities)
        newest[:] = [said.marks]
        return reply

    return read_reply


def claims_kept_elsewhere(world: World, store: Any, unit: Any) -> Generator[None, None, set[int]]:  # noqa: ARG001
    """The hours that are swapped, as a file beside the store would say it."""
    yield
    name = unit.storage_fingerprint
    return {h for h in range(FIRST_HOUR, FIRST_HOUR + HOURS) if (name, h) in world.ready_elsewhere}


def in_a_swap(change: Change, field: bytes) -> bool:
    return change.keys[0].key.rpartition(b":day:")[1] != b"" and field.startswith(b"l:")


def in_a_fold(change: Change, field: bytes) -> bool:
    return change.keys[0].key.endswith(b":hot") and field[:2] in (b"l:", b"r:")


def hours_in_a_fold(change: Change, field: bytes) -> bool:
    return change.keys[0].key.endswith(b":hot") and field == keys.HOURS


def hours_in_a_total(change: Change, field: bytes) -> bool:
    return field == keys.HOURS and [name for name, _, _ in change.keys[0].sets] == [keys.TOTAL]


def names_without_term() -> Patches:
    return ((control_record, "unit_name", lambda fingerprint, term: fingerprint),)  # noqa: ARG005


def nothing_held(self: HoldBuilds, at: NodeContext) -> Any:  # noqa: ARG001
    """Holds nothing: each operation is of the term that stands when it begins."""
    yield from ()
    return ({},)


def held_for_ever() -> Any:
    """Keeps what a connection learned first of a unit."""
    honest = HoldBuilds.steps

    def hold(self: HoldBuilds, at: NodeContext) -> Any:
        new = HoldBuilds({unit: n for unit, n in self.builds.items() if unit not in at.builds})
        return (yield from honest(new, at))

    return hold


def claims_without_term() -> Patches:
    return (
        (marks, "_term", lambda unit, term: []),  # noqa: ARG005
        (marks, "_check_term", lambda marks, unit, term: None),  # noqa: ARG005
    )


def standing_without_epoch(found: Sequence[bytes | None], generation: int, epoch: int) -> None:
    check_standing([found[0], b"%d" % epoch], generation, epoch)


def over_because_unknown(self: SweepRules, name: str) -> bool:
    return name not in self.units


def trim_without_count(self: TrimArchiveVersions, at: NodeContext) -> Any:
    count = yield from CountArchiveVersions(self.source).steps(at)
    return (yield from trim(replace(self, count=count), at))


def announced_once() -> Any:
    """A run that leaves out what is known already."""
    honest = PutArchiveVersion.steps

    def put_cover(self: PutArchiveVersion, at: NodeContext) -> Any:
        known = yield from ReadArchiveVersions(self.source).steps(at)
        if self.version not in known:
            yield from honest(self, at)

    return put_cover


def named_by_rows_alone(self: UnitHours) -> list[tuple[int, int]]:
    return [(each.seq, each.seq) for each in self.compacted.values()]


def older_because_other(generation: int, rules: SweepRules) -> Verdict:  # noqa: ARG001
    return Verdict(Finding.OLD_GENERATION)


def by_hours(start_us: int, end_us: int, slice_us: int) -> Segments:
    """A session read from totals of hours, which may hide a gap."""
    return segments(start_us, end_us, slice_us, slice_us)


def keyed_without_generation() -> Patches:
    hot, day = keys.hot_key, keys.day_key
    return (
        (keys, "hot_key", lambda generation, tag, unit: hot(0, tag, unit)),  # noqa: ARG005
        (keys, "day_key", lambda generation, tag, unit, d: day(0, tag, unit, d)),  # noqa: ARG005
    )


def _ledger(change: Change) -> bool:
    return bool(change.keys[0].sets) and change.keys[0].sets[0][0].startswith(b"g:")


MUTANTS: dict[str, Mutant] = {
    "gap": Mutant(
        "ledger", "a batch begins at or before the ledger", patched(decisions, "check_batch", without(GapRefused))
    ),
    "epoch": Mutant(
        "ledger",
        "a batch is of the newest epoch and its units",
        patched(decisions, "check_batch", without(EpochSuperseded)),
        unchecked(lambda change, field: field in (b"epoch", b"units") and _ledger(change)),
    ),
    "incarnation": Mutant("a store that forgets", "a batch is bound to one incarnation", world=flag("reconnects")),
    "cached": Mutant(
        "read",
        "the ledger comes with the data, of their incarnation",
        lambda: ((Read, "reply", read_with_a_kept_ledger()),),
    ),
    "generation": Mutant("marks", "every key names the generation of the store", keyed_without_generation),
    "standing": Mutant(
        "read",
        "a read ends in the epoch in which it began",
        patched(decisions, "check_standing", standing_without_epoch),
    ),
    "cover": Mutant(
        "fold",
        "a fold leaves out what its hour has compacted",
        patched(decisions, "hour_floor", floor_without_cover),
    ),
    "last": Mutant(
        "fold",
        "a fold leaves out what the entity's guard has passed",
        patched(decisions, "rows_to_keep", keep_beyond_floor),
    ),
    "compare": Mutant("fold", "guards and partials stand as they were read", world=unchecked(in_a_fold)),
    "compared-hours": Mutant("fold", "the hours of the day stand as they were read", world=unchecked(hours_in_a_fold)),
    "straddle": Mutant(
        "swap",
        "an entity is left over whose partial straddles the cover",
        patched(decisions, "swap_decision", never(PublishDecision.LEAVE_OVER)),
    ),
    "monotone": Mutant(
        "swap", "an older seq never replaces a newer", patched(decisions, "swap_decision", never(PublishDecision.STALE))
    ),
    "guards": Mutant("swap", "no guard moved since the partials were read", world=unchecked(in_a_swap)),
    "behind": Mutant(
        "swap",
        "a swapped cover contains the unit's start cover",
        patched(decisions, "check_swap", lambda seq, cover, start: None),  # noqa: ARG005
    ),
    "daytotal": Mutant(
        "day",
        "a day's total counts while its digest is that of the hours",
        patched(codec, "day_digest", lambda compacted: bytes(8)),  # noqa: ARG005
    ),
    "pentadtotal": Mutant(
        "day",
        "a pentad's total counts while its digest is that of its days",
        patched(codec, "pentad_digest", lambda days: bytes(8)),  # noqa: ARG005
    ),
    "session-slices": Mutant(
        "session", "a session is walked over slices", patched(reading_plan, "slice_segments", by_hours)
    ),
    "start-cover": Mutant(
        "start cover",
        "a fold leaves out what is below the start cover",
        patched(decisions, "hour_floor", floor_without_start),
    ),
    "ready": Mutant(
        "ready",
        "which hours are swapped is claimed by the store alone",
        patched(actors, "swapped", claims_kept_elsewhere),
    ),
    "term": Mutant("terms", "a unit that comes back has another name", names_without_term),
    "held": Mutant("terms", "a run holds the terms that it was planned by", patched(HoldBuilds, "steps", nothing_held)),
    "held-anew": Mutant(
        "terms",
        "a connection that serves another run holds that one's terms",
        lambda: ((HoldBuilds, "steps", held_for_ever()),),
    ),
    "claims": Mutant("terms", "what is claimed of a term is claimed while it stands", claims_without_term),
    "trim-count": Mutant(
        "covers",
        "a trim stands for the announcements that it counted",
        patched(TrimArchiveVersions, "steps", trim_without_count),
        met=False,
    ),
    "announce": Mutant(
        "covers",
        "a cover that is known is announced again",
        lambda: ((PutArchiveVersion, "steps", announced_once()),),
        met=False,
    ),
    "named": Mutant(
        "covers",
        "an hour may stand at any seq since it was last swapped whole",
        patched(UnitHours, "named", named_by_rows_alone),
        met=False,
    ),
    "sweep-newer": Mutant(
        "sweep",
        "of another generation only an older one is swept",
        patched(sweep, "_of_generation", older_because_other),
    ),
    "sweep-later": Mutant(
        "sweep", "a name that is not known may be one to come", patched(SweepRules, "is_over", over_because_unknown)
    ),
    "sweep-incarnation": Mutant("sweep", "a sweep is bound to one incarnation", world=flag("sweep_reconnects")),
}
