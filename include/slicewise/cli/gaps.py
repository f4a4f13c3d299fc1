"""A loss is accepted as it was shown, or not at all: the plan is made anew, and told apart by its
digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from slicewise.clock import Clock
from slicewise.features.plan.unit import Source
from slicewise.lifecycle.archiving import Loss, accepted_gap_of, loss
from slicewise.local import deploy
from slicewise.log import warning
from slicewise.offsets.gaps import AcceptedGap
from slicewise.offsets.vector import TopicPartition
from slicewise.settings import Settings
from slicewise.stores.lake import gaps as archive
from slicewise.stores.lake.archive import ArchiveState, archive_state, load
from slicewise.stores.lake.catalog import Catalog, IcebergTable, ensure, open_catalog
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import RUNS, log_table
from slicewise.stores.log.topics import KafkaLog, first_times_us
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.status import publish_gaps
from slicewise.stores.online.rules.decisions import check_clock


@dataclass(frozen=True)
class Plan:
    """Gap of a source, and what accepting it would record."""

    source: Source
    loss: Loss
    accepted: tuple[AcceptedGap, ...]
    now_us: int
    before: Mapping[TopicPartition, int]
    """Kafka timestamp of what is archived last of a partition."""
    after: Mapping[int, int]
    """Partition -> Kafka timestamp of the first record that the log holds."""
    catalog: Catalog
    table: IcebergTable | None
    """None before the first archive."""
    state: ArchiveState

    @property
    def digest(self) -> str:
        return self.loss.digest

    def accepted_gaps(self, by: str, why: str) -> tuple[AcceptedGap, ...]:
        """The gaps as they would be recorded."""
        return tuple(
            accepted_gap_of(
                self.source,
                gap,
                self.before.get(gap.topic_partition),
                self.after.get(gap.topic_partition[1], self.now_us),
                by,
                why,
                self.now_us,
            )
            for gap in self.loss.missing
        )


def plans(settings: Settings, clock: Clock, only: str | None = None) -> list[Plan]:
    """Per deployed source what its archive misses and its log no longer holds. Changes nothing.

    Raises UnknownName, ServerError where nothing is deployed, StoreUnavailable.
    """
    with deploy.looked_at(settings) as store:
        current = deploy.current(store)
        deployment = deploy.require_units(current)
        metadata = store.run(ReadMetadata())
    sources = [deployment.source(only)] if only is not None else list(deployment.declared.sources)
    catalog, log = open_catalog(settings), KafkaLog(settings.kafka_bootstrap)
    made = []
    for source in sources:
        table = load(catalog, source.name)
        state = ArchiveState(None, {}) if table is None else archive_state(table)
        units = [
            unit.storage_fingerprint for unit in deployment.units if unit.source == source.name
        ]
        starts = metadata.starts_of(units)
        lost = loss(
            state.offset_vector, log.earliest(source.topic), log.latest(source.topic), starts
        )
        made.append(
            Plan(
                source,
                lost,
                () if table is None else archive.accepted(table),
                clock.now_us(),
                archive.last_archived_us(table) if table is not None and lost.missing else {},
                first_times_us(log, source.topic) if lost.missing else {},
                catalog,
                table,
                state,
            )
        )
    return made


def accept(settings: Settings, clock: Clock, plan: Plan, by: str, why: str) -> int:
    """Records the loss in the archive, in `ops.runs` and with the store; the archive version that
    brought it.

    Raises CommitConflict when another archive came first, ClockOff where the commit would be dated
    wrong.
    """
    with deploy.connected(settings) as store:
        check_clock(clock.now_us(), store.run(ReadTime()), clock.now_us())
    accepted_gaps = plan.accepted_gaps(by, why)
    table = ensure(plan.catalog, log_table(plan.source)) if plan.table is None else plan.table
    archive_version = archive.accept(
        plan.catalog, table, plan.state, accepted_gaps, plan.loss.offset_vector
    )
    lost = sum(accepted_gap.end - accepted_gap.first for accepted_gap in accepted_gaps)
    row = {"run_id": uuid4().hex, "job": "hole", "time": clock.now_us(), "source": plan.source.name}
    append(
        plan.catalog, RUNS, [row | {"outcome": "accepted", "seq": archive_version, "events": lost}]
    )
    with deploy.connected(settings) as store:
        publish_gaps(store, plan.source.name, (*plan.accepted, *accepted_gaps))
    warning(
        "gap_accepted", source=plan.source.name, archive_version=archive_version, events=lost, by=by
    )
    return archive_version
