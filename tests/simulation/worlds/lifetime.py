"""After every write, an answer over all events of an entity holds exactly those that its token
says, once.

The same log, store, stream and operator as the world of slices; units have a lifetime, hours lie in
three days, and what is before a total-until hour goes into totals. Answers are the readers' own:
planned by the metadata, merged by `merge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.operations import Finished
from slicewise.codec import Layout, unpack_lifetime
from slicewise.errors import BeyondRetention, DataLoss, StoreUnavailable
from slicewise.lifecycle import lifetime as moves
from slicewise.lifecycle.compaction import NOTHING, Compacted, UnitHours, holds
from slicewise.lifecycle.lifetime import TotalsClaim
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.answer import BatchedPlan, NodeClaims, Stored, merge
from slicewise.reading.plan import ReadPlan, plan_read
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.operations.reading import UnitReply
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import START_VERSION
from slicewise.stores.online.steps import Change, Command, Fields, Whole
from slicewise.windows.durations import HOUR_US
from slicewise.windows.lifetime import lifetime as lifetime_window
from tests.simulation.histories.choices import Choices
from tests.simulation.worlds.world import (
    ENTITIES,
    FIRST_HOUR,
    Logged,
    Server,
    World,
    Wrong,
    archive_offsets,
)
from tests.support.stores.stored import Identities, StoreUnit, offset_vector, tag, topic_partition

DAYS = 3
HOURS = tuple(FIRST_HOUR + 24 * day + hour for day in range(DAYS) for hour in (0, 7))
END_US = (FIRST_HOUR + 24 * DAYS) * HOUR_US
RETENTION_US = 24 * DAYS * HOUR_US
"""A unit that begins empty has its total-until hour before all events; what is due moves with the
history's own days."""


class Seen(Identities):
    """Identities that are answered as they are: (partition, offset) as one number."""

    kind = "seen"

    @property
    def output_type(self) -> pa.DataType:
        return pa.list_(pa.int64())

    def finish_columns(self, partials: Columns) -> Finished:
        seen = partials.items("seen")
        numbers = (seen.values["partition"] << 32) | seen.values["offset"]
        return Finished(
            pa.ListArray.from_arrays(pa.array(seen.offsets.astype(np.int32)), pa.array(numbers))
        )


SEEN = Seen().bind({})
_LAYOUT = Layout.of([SEEN])
UNITS = tuple(
    StoreUnit(
        f"00000000000000f{n}",
        view=f"ever{n}",
        slice_us=size,
        retention_us=RETENTION_US,
        layout=_LAYOUT,
        lifetime=True,
    )
    for n, size in enumerate((HOUR_US // 2, HOUR_US))
)


Offsets = tuple[int, ...]


class LifetimeServer(Server):
    """A store that, with a rule removed, lets what holds applied offsets expire."""

    applied_offsets_expire = False

    def written(self, command: Command) -> Any:
        if self.applied_offsets_expire and isinstance(command, Change):
            second = self.time.now_us() // 1_000_000 + 3_600
            command = Change(
                tuple(
                    key._replace(
                        sets=[
                            (f, v, second if key.key.endswith(b":hot") else e)
                            for f, v, e in key.sets
                        ]
                    )
                    for key in command.keys
                )
            )
        return super().written(command)


class LifetimeWorld(World):
    """A world whose units have a lifetime."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.units = UNITS[:1]
        self.late = 0.4
        """Share of events that are of any day so far."""
        self.server: LifetimeServer = LifetimeServer(self)
        self.table: dict[tuple[str, int], tuple[int, Offsets]] = {}
        """(unit, hour) -> (archive version, offset vector) of its compacted rows, committed."""
        self.day = 0
        """Days that are over."""
        self._plans: dict[tuple[str, int, bool], BatchedPlan] = {}
        self.moved = 0

    def produce(self) -> None:
        """An event of the present day, or a late one."""
        partition = self.rng.randrange(len(self.log))
        day = min(self.day, DAYS - 1)
        day = day if self.rng.random() < 1 - self.late else self.rng.randrange(day + 1)
        hour = FIRST_HOUR + 24 * day + self.rng.choice((0, 7))
        at = hour * HOUR_US + self.rng.randrange(4) * HOUR_US // 4
        self.log[partition].append(Logged(self.rng.randrange(ENTITIES), hour, at))
        self.note(
            f"event p{partition} o{len(self.log[partition]) - 1}", f"day {day} hour {hour % 24}"
        )

    def archived(self) -> tuple[int, tuple[int, ...]]:
        """Archives as far as the log reaches, or, where the stream keeps up, as the store has
        come."""
        metadata, newest = self.metadata(), max(self.archive, default=0)
        if metadata is not None and newest and self.rng.random() < 0.7:
            ends_now = tuple(
                metadata.committed.get(topic_partition(p)) for p in range(len(self.log))
            )
            if (
                offset_vector(*ends_now).dominates(archive_offsets(self.archive[newest]))
                and ends_now != self.archive[newest]
            ):
                self.archive[newest + 1] = ends_now
                self.note(f"archive version {newest + 1}", f"offset vector {ends_now}")
                return newest + 1, ends_now
        return super().archived()

    @property
    def target(self) -> int:
        """The total-until hour that is due."""
        return FIRST_HOUR + 24 * min(self.day, DAYS - 1)

    # ------------------------------------------------------------ the truth
    def plan(self, unit: StoreUnit, nodes: Sequence[StoreMetadata]) -> ReadPlan:
        """One of all these nodes, as the service makes it."""
        claims = [node.totals_until.get(unit.storage_fingerprint) for node in nodes]
        if any(
            h is None and unit.storage_fingerprint in m.ready
            for h, m in zip(claims, nodes, strict=True)
        ):
            raise Wrong(f"{unit.view} is ready and has no total-until hour")
        return self._planned(
            unit, min(limit.hour for limit in claims if limit is not None), hourly=False
        ).plans[0]

    def _planned(self, unit: StoreUnit, total_until: int, hourly: bool) -> BatchedPlan:
        """hourly: without the totals of days."""
        key = (unit.storage_fingerprint, total_until, hourly)
        plan = self._plans.get(key)
        if plan is None:
            days = self._planned(unit, total_until, hourly=False).plans[0].days if hourly else ()
            planned, feature = (
                replace(unit, five_day_totals=False),
                unit.feature("n_lifetime", lifetime_window(), SEEN),
            )
            without = frozenset(day.day for day in days)
            made = plan_read(cast(Any, planned), [feature], "at", END_US, without, total_until)
            plan = self._plans[key] = BatchedPlan((made,))
        return plan

    def check(self) -> None:
        metadata = self.metadata()
        if metadata is None:
            return
        for unit in UNITS:
            if unit.storage_fingerprint in metadata.ready:
                plan = self.plan(unit, [metadata])
                for entity in self.here:
                    hot, days = keys_of(metadata, unit, entity, plan)
                    reply = UnitReply(
                        self.server.execute(Whole(hot)),
                        [self.server.execute(Fields(k, n)) for k, n in days],
                    )
                    try:
                        base = self.judge_lifetime(
                            unit, entity, metadata, plan, reply, self.server.server_run, now=True
                        )
                        self.judged(unit, entity, metadata, reply, base)
                        self.check_served(unit, entity, metadata, base)
                    except (StoreUnavailable, DataLoss, BeyondRetention) as error:
                        raise Wrong(f"{unit.view} entity {entity}: {error.what}") from error

    def judge_lifetime(
        self,
        unit: StoreUnit,
        entity: int,
        metadata: StoreMetadata,
        plan: ReadPlan,
        reply: UnitReply,
        server_run: ServerRun,
        now: bool = False,
    ) -> list[int]:
        """Compares an answer with the log; its base (none: it is no answer). now: nothing came
        between its parts, nor will. Raises Wrong."""
        self.checked += 1
        given = (
            self.offsets_by_version,
            metadata.starts[unit.storage_fingerprint],
            metadata.name(unit.storage_fingerprint),
            entity,
            metadata.committed,
            plan.number,
            tuple(reply.hot),
            tuple(map(tuple, reply.days)),
            self.has_realtime(metadata, server_run),
        )
        if given in self.true:
            return self.true[given]
        if now:  # what was read before it was forgotten is read again
            self.check_total(reply.hot, metadata.store_id)
        start = metadata.starts[unit.storage_fingerprint]
        offset_vectors = {
            archive_version: archive_offsets(offsets)
            for archive_version, offsets in self.archive.items()
        }
        batched = self._planned(unit, plan.total_until or 0, hourly=False)
        stored = [[Stored(0, None, reply.hot, reply.days)]]
        claims = NodeClaims(
            metadata.committed, start, offset_vectors, self.has_realtime(metadata, server_run)
        )
        merged = merge(batched, stored, 1, [claims])
        if not merged.complete and not now:
            return []  # the totals of days are out of date: a reader asks again, hour by hour
        if not merged.complete:
            planned = self._planned(unit, plan.total_until or 0, hourly=True)
            hours = [
                self.server.execute(Fields(key, names))
                for key, names in keys_of(metadata, unit, entity, planned.plans[0])[1]
            ]
            merged = merge(planned, [[Stored(0, None, reply.hot, hours)]], 1, [claims])
        numbers = cast(Finished, merged.finished[0]).values.to_pylist()[0] or []
        got = sorted((n >> 32, n & 0xFFFFFFFF) for n in numbers)
        base_offsets, compacted_beyond = merged.base[0][0], merged.compacted_beyond[0][0]
        want = sorted(
            (p, offset)
            for p, rows in enumerate(self.log)
            for offset, event in enumerate(rows)
            if event.entity == entity
            and offset
            < max(
                base_offsets.get(topic_partition(p)),
                compacted_beyond.get(event.hour, OffsetVector()).get(topic_partition(p)),
            )
        )
        if got != want:
            raise Wrong(
                f"{unit.view} entity {entity}, base {list(base_offsets.offsets.values())}, "
                f"total-until hour {plan.total_until}: "
                f"missing {sorted((Counter(want) - Counter(got)).elements())}, "
                f"too many {sorted((Counter(got) - Counter(want)).elements())}"
            )
        return self.true.setdefault(
            given, [base_offsets.get(topic_partition(p)) for p in range(len(self.log))]
        )

    def check_total(self, hot: Sequence[bytes], store_id: int) -> None:
        """The archive version that a total names is one that the store knows."""
        for name, value in zip(hot[::2], hot[1::2], strict=True):
            archive_version = (
                unpack_lifetime(value).archive_version if name == keys.LIFETIME else START_VERSION
            )
            if archive_version != START_VERSION and archive_version not in self.connect_quietly(
                store_id
            ):
                raise Wrong(
                    f"nothing says what archive version {archive_version} of a total stands for"
                )

    def connect_quietly(self, store_id: int) -> set[int]:
        flat = self.server.execute(Whole(keys.offset_vectors_key(store_id, "plays")))
        return {int(field) for field in flat[::2] if field != decisions.ANNOUNCED}

    # ------------------------------------------------------------ the tables
    def hours(self, unit: StoreUnit, metadata: StoreMetadata) -> UnitHours:
        """A run's knowledge of the unit's hours, without the store's claims."""
        name = unit.storage_fingerprint
        starts = metadata.starts_of([name])
        newest: dict[int, int] = {}
        for p, rows in enumerate(self.log):
            for offset, event in enumerate(rows):
                archive_version = min(
                    (s for s, ends in self.archive.items() if p < len(ends) and offset < ends[p]),
                    default=0,
                )
                if archive_version:
                    newest[event.hour] = max(newest.get(event.hour, 0), archive_version)
        compacted = {}
        for (of, hour), (archive_version, offsets) in self.table.items():
            if of == name:
                compacted[hour] = Compacted(
                    archive_version,
                    holds(
                        archive_version, offset_vector(*offsets), starts, self.contained, NOTHING
                    ),
                )
        return UnitHours(newest, compacted, {})

    def contained(self, offset_vector_of: OffsetVector) -> int:
        return max(
            (
                s
                for s, ends in self.archive.items()
                if offset_vector_of.dominates(offset_vector(*ends))
            ),
            default=0,
        )

    def totals_claim(self, unit: StoreUnit, metadata: StoreMetadata) -> TotalsClaim | None:
        return moves.totals_claim(metadata, unit.storage_fingerprint, self.contained)

    def kept_from(self, unit: StoreUnit, metadata: StoreMetadata) -> int:
        return moves.kept_from(metadata, unit.storage_fingerprint, self.target)


def keys_of(
    metadata: StoreMetadata, unit: StoreUnit, entity: int, plan: ReadPlan
) -> tuple[bytes, list[tuple[bytes, tuple[bytes, ...]]]]:
    name, entity_tag = metadata.name(unit.storage_fingerprint), tag(entity)
    days = [(keys.day_key(metadata.store_id, entity_tag, name, d.day), d.names) for d in plan.days]
    return keys.hot_key(metadata.store_id, entity_tag, name), days
