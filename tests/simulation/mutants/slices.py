"""Mutants without a rule of slices, metadata, builds, offset vectors or the sweep."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slicewise import codec
from slicewise.errors import DeploymentSuperseded, GapRefused
from slicewise.lifecycle import sweep
from slicewise.lifecycle.compaction import UnitHours
from slicewise.lifecycle.sweep import Finding, SweepRules, Verdict
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading import plan as reading_plan
from slicewise.stores.online import control_record, keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.operations.archive_versions import (
    CountArchiveVersions,
    PutArchiveVersion,
    ReadArchiveVersions,
    TrimArchiveVersions,
)
from slicewise.stores.online.operations.connecting import HoldBuilds
from slicewise.stores.online.operations.reading import Read, ReadReply
from slicewise.stores.online.port import NodeContext
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision, Running
from slicewise.stores.online.steps import Change
from slicewise.windows.segments import Segments, segments
from tests.simulation.actors import slices as actors
from tests.simulation.mutants.rules import Mutant, Patches, flag, patched, unchecked
from tests.simulation.worlds.world import FIRST_HOUR, HOURS, World

check_batch, publish_decision = decisions.check_batch, decisions.publish_decision
trim = TrimArchiveVersions.steps
hour_floor, check_unchanged = decisions.hour_floor, decisions.check_unchanged


def without(error: type[Exception]) -> Callable[..., None]:
    """The check of a batch, lenient in one respect."""

    def lenient(*arguments: Any) -> None:
        try:
            check_batch(*arguments)
        except error:
            return

    return lenient


def never(action: PublishDecision) -> Callable[..., tuple[PublishDecision, tuple[bytes, ...]]]:
    """A publish that goes on where the rule would stop it."""

    def lenient(
        archive_version: int,
        offset_vector: OffsetVector,
        current: int | None,
        running: Sequence[Running],
    ) -> tuple[PublishDecision, tuple[bytes, ...]]:
        decided, deletes = publish_decision(archive_version, offset_vector, current, running)
        if decided is action:
            return PublishDecision.PUBLISH, tuple(
                p.field for p in running if p.last < offset_vector.get(p.topic_partition)
            )
        return decided, deletes

    return lenient


def floor_without_version(topic_partition: TopicPartition, start: OffsetVector, *_: Any) -> int:
    return start.get(topic_partition)


def floor_without_start(
    topic_partition: TopicPartition,
    start: OffsetVector,
    hours: Mapping[int, int],
    offset_vectors: Mapping[int, OffsetVector],
    hour: int,
) -> int:
    if hours.get(hour) == decisions.START_VERSION:
        return start.get(topic_partition)  # published: that it is compacted is another rule
    return hour_floor(topic_partition, OffsetVector(), hours, offset_vectors, hour)


def keep_beyond_floor(offsets: Any, last: Any, floors: Any) -> Any:  # noqa: ARG001
    return np.asarray(offsets >= floors)


def read_with_kept_offsets() -> Any:
    """A reader that keeps the committed offsets of an earlier server run."""
    honest = Read.reply
    newest: list[StoreMetadata] = []

    def read_reply(self: Read, at: NodeContext, replies: Any) -> ReadReply:
        reply = honest(self, at, replies)
        only = reply.only
        if newest and newest[0].store_id == only.metadata.store_id:
            kept = newest[0]
            if kept.committed.dominates(only.metadata.committed):
                mixed = StoreMetadata(**{**only.metadata.__dict__, "committed": kept.committed})
                return ReadReply({0: only._replace(metadata=mixed)}, reply.entities)
        newest[:] = [only.metadata]
        return reply

    return read_reply


def claims_kept_elsewhere(world: World, store: Any, unit: Any) -> Generator[None, None, set[int]]:  # noqa: ARG001
    """The hours that are published, as a file beside the store would say it."""
    yield
    name = unit.storage_fingerprint
    return {h for h in range(FIRST_HOUR, FIRST_HOUR + HOURS) if (name, h) in world.ready_elsewhere}


def in_a_publish(change: Change, field: bytes) -> bool:
    return change.keys[0].key.rpartition(b":day:")[1] != b"" and field.startswith(b"l:")


def in_a_batch(change: Change, field: bytes) -> bool:
    return change.keys[0].key.endswith(b":hot") and field[:2] in (b"l:", b"r:")


def hours_in_a_batch(change: Change, field: bytes) -> bool:
    return change.keys[0].key.endswith(b":hot") and field == keys.HOURS


def hours_in_a_total(change: Change, field: bytes) -> bool:
    return field == keys.HOURS and [name for name, _, _ in change.keys[0].sets] == [keys.TOTAL]


def names_without_build() -> Patches:
    return ((control_record, "unit_name", lambda fingerprint, build: fingerprint),)  # noqa: ARG005


def no_builds(self: HoldBuilds, at: NodeContext) -> Any:  # noqa: ARG001
    """Holds nothing: each operation is of the build that stands when it begins."""
    yield from ()
    return ({},)


def builds_kept_forever() -> Any:
    """Keeps what a connection learned first of a unit."""
    honest = HoldBuilds.steps

    def hold(self: HoldBuilds, at: NodeContext) -> Any:
        new = HoldBuilds({unit: n for unit, n in self.builds.items() if unit not in at.builds})
        return (yield from honest(new, at))

    return hold


def claims_without_build() -> Patches:
    return (
        (metadata, "_build", lambda unit, build: []),  # noqa: ARG005
        (metadata, "_check_build", lambda metadata, unit, build: None),  # noqa: ARG005
    )


def unchanged_without_deployment_version(
    actual: Sequence[bytes | None], store_id: int, deployment_version: int
) -> None:
    check_unchanged([actual[0], b"%d" % deployment_version], store_id, deployment_version)


def over_because_unknown(self: SweepRules, name: str) -> bool:
    return name not in self.units


def trim_without_count(self: TrimArchiveVersions, at: NodeContext) -> Any:
    count = yield from CountArchiveVersions(self.source).steps(at)
    return (yield from trim(replace(self, count=count), at))


def announced_once() -> Any:
    """A run that leaves out what is known already."""
    honest = PutArchiveVersion.steps

    def put_version(self: PutArchiveVersion, at: NodeContext) -> Any:
        registered = yield from ReadArchiveVersions(self.source).steps(at)
        if self.version not in registered:
            yield from honest(self, at)

    return put_version


def named_by_rows_alone(self: UnitHours) -> list[tuple[int, int]]:
    return [(row.archive_version, row.archive_version) for row in self.compacted.values()]


def older_because_other(store_id: int, rules: SweepRules) -> Verdict:  # noqa: ARG001
    return Verdict(Finding.OLD_STORE_ID)


def by_hours(start_us: int, end_us: int, slice_us: int) -> Segments:
    """A session read from totals of hours, which may hide a gap."""
    return segments(start_us, end_us, slice_us, slice_us)


def keyed_without_store_id() -> Patches:
    hot, day = keys.hot_key, keys.day_key
    return (
        (keys, "hot_key", lambda store_id, tag, unit: hot(0, tag, unit)),  # noqa: ARG005
        (keys, "day_key", lambda store_id, tag, unit, d: day(0, tag, unit, d)),  # noqa: ARG005
    )


def _committed(change: Change) -> bool:
    return bool(change.keys[0].sets) and change.keys[0].sets[0][0].startswith(b"g:")


MUTANTS: dict[str, Mutant] = {
    "gap": Mutant(
        "committed offsets",
        "a batch begins at or before the committed offsets",
        patched(decisions, "check_batch", without(GapRefused)),
    ),
    "deployment-version": Mutant(
        "committed offsets",
        "a batch is of the newest deployment version and its units",
        patched(decisions, "check_batch", without(DeploymentSuperseded)),
        unchecked(lambda change, field: field in (b"epoch", b"units") and _committed(change)),
    ),
    "server-run": Mutant(
        "a store that forgets", "a batch is bound to one server run", world=flag("reconnects")
    ),
    "cached": Mutant(
        "read",
        "the committed offsets come with the data, of their server run",
        lambda: ((Read, "reply", read_with_kept_offsets()),),
    ),
    "store-id": Mutant("metadata", "every key names the store id", keyed_without_store_id),
    "standing": Mutant(
        "read",
        "a read ends in the deployment version in which it began",
        patched(decisions, "check_unchanged", unchanged_without_deployment_version),
    ),
    "offset-vector": Mutant(
        "micro-batch",
        "a micro-batch leaves out what its hour has compacted",
        patched(decisions, "hour_floor", floor_without_version),
    ),
    "last": Mutant(
        "micro-batch",
        "a micro-batch leaves out what the entity's applied offset has passed",
        patched(decisions, "rows_to_keep", keep_beyond_floor),
    ),
    "compare": Mutant(
        "micro-batch",
        "applied offsets and partials stand as they were read",
        world=unchecked(in_a_batch),
    ),
    "compared-hours": Mutant(
        "micro-batch",
        "the hours of the day stand as they were read",
        world=unchecked(hours_in_a_batch),
    ),
    "straddle": Mutant(
        "publish",
        "an entity is left over whose partial straddles the offset vector",
        patched(decisions, "publish_decision", never(PublishDecision.LEAVE_OVER)),
    ),
    "monotone": Mutant(
        "publish",
        "an older archive version never replaces a newer",
        patched(decisions, "publish_decision", never(PublishDecision.STALE)),
    ),
    "applied-offsets": Mutant(
        "publish",
        "no applied offset moved since the partials were read",
        world=unchecked(in_a_publish),
    ),
    "behind": Mutant(
        "publish",
        "a published offset vector contains the unit's start offsets",
        patched(decisions, "check_publish", lambda archive_version, offset_vector, start: None),  # noqa: ARG005
    ),
    "daytotal": Mutant(
        "day",
        "a day's total counts while its digest is that of the hours",
        patched(codec, "day_digest", lambda compacted: bytes(8)),  # noqa: ARG005
    ),
    "whole-day": Mutant(
        "day",
        "a total goes in with its hours only where these are all of their day",
        patched(decisions, "is_whole_day", lambda published, given, compacted: True),  # noqa: ARG005
    ),
    "five-day-total": Mutant(
        "day",
        "a five-day total counts while its digest is that of its days",
        patched(codec, "five_day_digest", lambda days: bytes(8)),  # noqa: ARG005
    ),
    "session-slices": Mutant(
        "session",
        "a session is walked over slices",
        patched(reading_plan, "slice_segments", by_hours),
    ),
    "start-offsets": Mutant(
        "start offsets",
        "a micro-batch leaves out what is below the start offsets",
        patched(decisions, "hour_floor", floor_without_start),
    ),
    "ready": Mutant(
        "ready",
        "which hours are published is claimed by the store alone",
        patched(actors, "published", claims_kept_elsewhere),
    ),
    "build": Mutant("builds", "a unit that comes back has another name", names_without_build),
    "held": Mutant(
        "builds",
        "a run holds the builds that it was planned by",
        patched(HoldBuilds, "steps", no_builds),
    ),
    "held-anew": Mutant(
        "builds",
        "a connection that serves another run holds that one's builds",
        lambda: ((HoldBuilds, "steps", builds_kept_forever()),),
    ),
    "claims": Mutant(
        "builds", "what is claimed of a build is claimed while it stands", claims_without_build
    ),
    "trim-count": Mutant(
        "offset vectors",
        "a trim stands for the announcements that it counted",
        patched(TrimArchiveVersions, "steps", trim_without_count),
        met=False,
    ),
    "announce": Mutant(
        "offset vectors",
        "an offset vector that is known is announced again",
        lambda: ((PutArchiveVersion, "steps", announced_once()),),
        met=False,
    ),
    "named": Mutant(
        "offset vectors",
        "an hour may stand at any archive version since it was last published whole",
        patched(UnitHours, "named", named_by_rows_alone),
        met=False,
    ),
    "sweep-newer": Mutant(
        "sweep",
        "of another store id only an older one is swept",
        patched(sweep, "_of_store_id", older_because_other),
    ),
    "sweep-later": Mutant(
        "sweep",
        "a name that is not known may be one to come",
        patched(SweepRules, "is_over", over_because_unknown),
    ),
    "sweep-server-run": Mutant(
        "sweep", "a sweep is bound to one server run", world=flag("sweep_reconnects")
    ),
}
