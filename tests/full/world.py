"""A platform in one process: the engine's own micro-batch lane, compaction, store and service over
a clock that stands still.

Batches are applied as executors micro-batch lane them, hours compacted and published as the hourly
job does it, and questions answered by the service object. What is not here is what carries bytes:
Kafka, Spark, a server of Redis, HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.clock import ManualClock
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.features.row_columns import row_logic
from slicewise.lifecycle.compaction import days_to_total
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.spark.lake.partials import Accumulate, Combine, UnitRef, Whole
from slicewise.spark.lake.publish_hours import HourRows
from slicewise.spark.microbatch.apply import Placed, SourceRows, batch_of, list_batch_of
from slicewise.stores.lake.schemas import unit_entity
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted, BeginBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList
from slicewise.stores.online.operations.publish_days import MarkHour, PublishDays
from slicewise.training.events.rows import IDENTITY_COLUMNS, KAFKA_TIME, unit_events
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.tables.given.events import TOPIC, typed_events
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.full.histories import BEGIN_US, PARTITIONS, History


@dataclass(frozen=True)
class Part:
    """A unit's rows after its row logic, in the order of the log, and as training takes them."""

    unit: StorageUnit
    rows: pa.Table
    offline: UnitEvents


class World:
    """World in which a history is played. Its log is read up to `ends`, archived up to
    `archived`."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.clock = ManualClock(BEGIN_US)
        self.server = MemoryServer(self.clock)
        self.store = open_memory(self.server)
        deployment = history.deployment
        (source,) = deployment.sources
        self.source = source
        metadata = self.store.run(Initialise())
        metadata = self.store.run(
            Deploy(deployment, metadata.deployment_version, {source.topic: TOPIC}, OffsetVector())
        )
        self.manifest = deployment.to_json()
        typed, refused = typed_events(source, list(history.events))
        assert not refused, refused
        self.typed = typed
        units = {unit.storage_fingerprint: unit for unit in deployment.units}
        self.parts = [self._part(unit) for unit in units.values()]
        self.service = FeatureService(self.clock)
        self.connection = SyncConnection(lambda: open_memory(self.server))
        self.ends = OffsetVector()
        self.archived = OffsetVector()
        self.archive_version = 0

    def _part(self, unit: StorageUnit) -> Part:
        rows, _ = row_logic(unit, self.typed, (*IDENTITY_COLUMNS, KAFKA_TIME))
        return Part(unit, rows, unit_events(unit, self.typed))

    # ---------------------------------------------------------------- the stream
    def offset_vector_of(self, events: int) -> OffsetVector:
        """The offset vector of the first so many events of the log."""
        ends: dict[TopicPartition, int] = {}
        for event in self.history.events[:events]:
            ends[TOPIC, event["partition"]] = event["offset"] + 1
        return OffsetVector(ends)

    def apply_to(self, events: int, *, twice: bool = False) -> None:
        """A batch up to there, and its end; twice: as after a crash before that."""
        end = self.offset_vector_of(events)
        newest = max(event[KAFKA_TIME] for event in self.history.events[:events])
        self.clock.set(max(self.clock.now_us(), newest + 1))
        metadata = self.store.run(ReadMetadata())
        self.store.run(BeginBatch(self.ends, metadata.deployment_version, metadata.units))
        for _ in range(2 if twice else 1):
            for part in self.parts:
                for partition in range(PARTITIONS):
                    self._apply(part, partition, end)
        self.store.run(
            AdvanceCommitted(self.ends, end, metadata.deployment_version, metadata.units)
        )
        self.ends = end

    def _apply(self, part: Part, partition: int, end: OffsetVector) -> None:
        topic_partition, unit = (TOPIC, partition), part.unit
        offset = part.rows["offset"]
        wanted = pc.and_(
            pc.greater_equal(offset, self.ends.get(topic_partition)),
            pc.less(offset, end.get(topic_partition)),
        )
        table = part.rows.filter(pc.and_(wanted, pc.equal(part.rows["partition"], partition)))
        if not table.num_rows:
            return
        table = table.append_column("keep", pa.array(np.zeros(table.num_rows, np.int32)))
        placed = Placed(
            unit.storage_fingerprint, "keep", tuple(n for n, _ in unit.entity), _own(unit)
        )
        rows = SourceRows.of(table.combine_chunks(), TOPIC, partition)
        if isinstance(unit, ListUnit):
            listed = list_batch_of(unit, placed, rows)
            assert listed is not None
            self.store.run(AddToList(listed))
            return
        batch = batch_of(unit, placed, rows)
        assert batch is not None
        self.store.run(ApplyBatch(batch))

    # ---------------------------------------------------------------- the hourly job
    def compact(self, rng: Random, events: int) -> int:
        """Archives the first so many events, and compacts some of the hours that are over; how many
        hours."""
        self.archived = self.archived.join(self.offset_vector_of(events))
        self.archive_version += 1
        self.store.run(PutArchiveVersion(self.source.name, self.archive_version, self.archived))
        done = 0
        now_hour = self.clock.now_us() // HOUR_US
        for part in self.parts:
            if isinstance(part.unit, ListUnit):
                continue
            contained = part.rows.filter(pa.array(self._contained(part.rows)))
            hours_of_events = sorted(set((contained["event_time"].to_numpy() // HOUR_US).tolist()))
            hours = [hour for hour in hours_of_events if hour < now_hour and rng.random() < 0.7]
            tags: dict[int, dict[bytes, None]] = {}
            for hour in hours:
                tags.setdefault(hour // 24, {}).update(
                    dict.fromkeys(self._publish(part.unit, contained, hour))
                )
            for day in days_to_total(hours, None, now_hour):
                self.store.run(WriteDayTotals(part.unit, list(tags[day]), day))
            done += len(hours)
        return done

    def _contained(self, rows: pa.Table) -> np.ndarray:
        ends = np.array(
            [self.archived.get((TOPIC, partition)) for partition in range(PARTITIONS)], np.int64
        )
        return np.asarray(rows["offset"].to_numpy() < ends[rows["partition"].to_numpy()])

    def _publish(self, unit: StorageUnit, contained: pa.Table, hour: int) -> list[bytes]:
        """The tags of its entities."""
        table = contained.filter(pa.array(contained["event_time"].to_numpy() // HOUR_US == hour))
        ref = UnitRef(self.manifest, unit.storage_fingerprint)
        whole = Whole(Accumulate(ref, _own(unit)), Combine(ref))
        compacted = pa.Table.from_batches(list(whole(iter(table.combine_chunks().to_batches()))))
        rows = HourRows.of(unit, compacted, tuple(name for name, _ in unit_entity(unit)))
        entries = rows.entries({hour: self.archive_version}).get(self.archive_version, [])
        outcome = self.store.run(
            PublishDays(unit, self.archive_version, self.archived, entries)
        ).hours[hour]
        if not outcome.left_over:
            self.store.run(MarkHour(unit, hour, self.archive_version))
        return [entry.tag for entry in entries]

    # ---------------------------------------------------------------- questions
    def read(
        self, unit: StorageUnit, entities: Sequence[Mapping[str, Any]], at_us: int | None
    ) -> Answer:
        """All features of a unit."""
        refs = [f"{unit.view}:{feature.column}" for feature in unit.features]
        return self.connection.run(
            self.service.read(checked(refs, None, [dict(entity) for entity in entities], at_us))
        )

    def instants(self, rng: Random, n: int) -> list[int | None]:
        """The present, and moments since the history began: at an event, soon after one, or at a
        minute's edge."""
        now, instants = self.clock.now_us(), list[int | None]([None])
        source = self.source.timestamp
        times = [time for event in self.history.events if (time := event[source]) < now]
        for _ in range(n - 1):
            at = min(
                now,
                rng.choice(times)
                + rng.choice([0, 0, rng.randrange(MINUTE_US), rng.randrange(HOUR_US)]),
            )
            instants.append(at // MINUTE_US * MINUTE_US if rng.random() < 0.3 else at)
        return instants


def _own(unit: StorageUnit) -> dict[str, str]:
    """The inputs of aggregates, under their own names."""
    return {name: name for name, _ in unit.input_types}
