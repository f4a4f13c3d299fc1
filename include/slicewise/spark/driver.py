"""The driver keeps one query per deployed source alive, and drains them when it is told to stop.

What can be mended by planning again from the metadata is (a new deployment version at once, a lost
store with growing pauses); lost data and a failure that returns without any progress end it,
loudly.
"""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

from pyspark.sql import SparkSession

from slicewise.clock import Clock
from slicewise.errors import (
    DataLoss,
    DeploymentSuperseded,
    DriverSuperseded,
    NotReady,
    SettingsError,
    SlicewiseError,
    StoreUnavailable,
)
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.health.judge import lives
from slicewise.settings import Settings
from slicewise.spark.fence import Fence
from slicewise.spark.healing import Healer, Healing
from slicewise.spark.lineage.report import Lineage
from slicewise.spark.microbatch.figures import BatchFigures, SourceFigures
from slicewise.spark.microbatch.streaming import SourceQuery, forget_checkpoints, plan_stream
from slicewise.spark.runtime.log import event, warning
from slicewise.spark.runtime.session import stream_session
from slicewise.spark.runtime.status_sinks import Metrics, put_statuses, write_heartbeat
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model.status import State, Status
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.operations.pending import EndRealtime
from slicewise.stores.online.operations.status import ReadStatus
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from slicewise.stores.recovery.schema_offsets import LEASE_S, record_schema_offsets

TICK_S = 0.5
_PAUSES_S = (0.1, 0.5, 1.0, 2.0, 5.0)
_ENDLESS = 20
"""Failures in a row, without a batch applied between them, after which the driver gives up."""


class RunningQuery(Protocol):
    """Query that a driver keeps of one source; `SourceQuery` is one."""

    @property
    def active(self) -> bool: ...
    def lag(self) -> dict[int, int]: ...
    def error(self) -> BaseException | None: ...
    def begin_drain(self) -> None: ...
    def drain(self) -> None: ...


class Lane(Protocol):
    """Figures of a source in one lane, which adds its own to those of the source."""

    def __init__(self, source: SourceFigures) -> None: ...
    @property
    def source(self) -> SourceFigures: ...
    def status(self) -> Status: ...


L = TypeVar("L", bound=Lane)


@dataclass
class Driver:
    """One process's streams. `run` returns the exit code."""

    part: ClassVar[str] = "stream"
    """Name of its folder, its events and its statuses."""
    setting: ClassVar[str] = ""
    """Beginning of its settings' names, where that is not its part's name."""

    settings: Settings
    clock: Clock
    stop: threading.Event = field(default_factory=threading.Event)
    metrics: Metrics = field(default_factory=Metrics)
    _queries: dict[str, RunningQuery] = field(default_factory=dict)
    _lanes: dict[str, Lane] = field(default_factory=dict)
    """Source -> its figures, of which its status is made."""
    _bound: tuple[object, ...] | None = None
    _failures: int = 0
    _applied: int = 0
    _port: int = 0
    _session: SparkSession | None = None
    _healer: Healing = field(init=False)
    _fence: Fence = field(init=False)
    _lineage: Lineage = field(init=False)
    _opening: tuple[Deployment, StoreMetadata, float] | None = None
    """The deployment that runs, its metadata, and since when, where a schema of it has no recorded
    offsets yet."""

    def __post_init__(self) -> None:
        self._healer = Healer(self.settings)
        self._fence = Fence(self.part, self.clock)
        self._lineage = Lineage(self.settings, self.part, self.clock, streaming=True)

    def run(self) -> int:
        self._obey_signals()
        forget_checkpoints(self.settings.state_dir, self.part)
        (self.settings.state_dir / self.part).mkdir(parents=True, exist_ok=True)
        self._port = self.metrics.serve(
            getattr(self.settings, f"{self.setting or self.part}_metrics"), self.part
        )
        self._lineage.begin()
        self._open()
        event(f"{self.part}_started", metrics_port=self._port)
        code = 0
        while not self.stop.is_set():
            try:
                store = open_store(self.settings.redis_url)
                try:
                    self._attend(store)
                finally:
                    store.close()
            except DataLoss as error:
                warning(f"{self.part}_refused", error=str(error))
                self._put_state("refused", str(error))
                code = 3
                break
            except DriverSuperseded as error:
                warning(f"{self.part}_superseded", error=str(error))
                self._give_up(error)
                code = 4
                break
            except SlicewiseError as error:
                if not self._pause(error):
                    code = 1
                    break
        self._drain("running" if code == 4 else "stopped")
        self._lineage.end("FAIL" if code else "COMPLETE")
        self._close()
        self._lineage.close()
        event(f"{self.part}_stopped", code=code)
        return code

    def _obey_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())

    def _open(self) -> None:
        """Opens what all queries share."""
        self._session = stream_session(self.settings)

    def _close(self) -> None:
        if self._session is not None:
            self._session.stop()

    def _attend(self, store: OnlineStore) -> None:
        """Until told to stop: plans when the metadata changes, and looks after the queries."""
        while not self.stop.is_set():
            metadata = self._look(store)
            self._fence.check(store)
            bound = (
                metadata.deployment_version,
                metadata.units,
                metadata.store_id,
                self._realtime_sources(metadata),
            )
            if bound != self._bound or not all(q.active for q in self._queries.values()):
                self._bound = None  # what fails half-way is planned again
                self._plan(store, metadata)
                self._bound = bound
            self._report(store, metadata)
            self._record_schema_offsets(store)
            self.stop.wait(TICK_S)

    def _look(self, store: OnlineStore) -> StoreMetadata:
        """The metadata; what it lacks is brought back first."""
        return self._healer.look(store)

    def _record_schema_offsets(self, store: OnlineStore) -> None:
        """Records offsets of schemas that have none, once all who judged by earlier ones are gone;
        the next look plans with them."""
        if self._opening is None or time.monotonic() - self._opening[2] < LEASE_S:
            return
        (deployment, metadata, _), self._opening = self._opening, None
        try:
            with KafkaLog(self.settings.kafka_bootstrap) as log:
                record_schema_offsets(store, log, deployment, metadata)
        except DeploymentSuperseded:
            return  # who deployed meanwhile, or recorded them, is planned next
        event("schema_placed", sources=list(deployment.opening))

    def _plan(self, store: OnlineStore, metadata: StoreMetadata) -> None:
        ended = [query.error() for query in self._queries.values() if not query.active]
        self._drain("running")
        for error in ended:
            if error is not None and not isinstance(error, DeploymentSuperseded):
                raise error if isinstance(error, SlicewiseError) else _Ended.of(error)
        manifest = store.run(ReadManifest(metadata.units)) if metadata.units else None
        if manifest is None:
            event("nothing_deployed")
            return
        # the committed offsets after the drain
        deployment, current = Deployment.from_json(manifest), store.run(ReadMetadata())
        opening = (
            deployment.opening and current.units == metadata.units and self.part == Driver.part
        )
        self._opening = (deployment, current, time.monotonic()) if opening else None
        # else it is a newer deployment's turn
        if self._healer.bridged(store, deployment, current) is current:
            self._start(deployment, manifest, current)
            self._lineage.running(manifest)

    def _start(self, deployment: Deployment, manifest: str, metadata: StoreMetadata) -> None:
        """A query for each source that has something to do."""
        assert self._session is not None
        log = KafkaLog(self.settings.kafka_bootstrap)
        for source in deployment.sources:
            if source.is_opening:
                event("schema_opening", source=source.name)
                continue
            plan = plan_stream(
                deployment, source, metadata, log, realtime=self.settings.realtime == "on"
            )
            if not plan.units:
                continue
            figures = self._lane(source.name, BatchFigures)
            figures.source.realtime = self.settings.realtime
            self._queries[source.name] = SourceQuery(
                self._session, self.settings, plan, manifest, figures
            )
            event(
                "query_started",
                source=source.name,
                deployment_version=plan.deployment_version,
                start=dict(plan.start),
            )

    def _lane(self, name: str, kind: type[L]) -> L:
        """The figures of a source, as of one whose query runs."""
        lane = self._lanes.get(name)
        if not isinstance(lane, kind):
            lane = self._lanes[name] = kind(SourceFigures(name, self.clock))
        lane.source.state = "running"
        return lane

    def _realtime_sources(self, metadata: StoreMetadata) -> frozenset[str]:
        """Sources whose micro-batches remove what the real-time lane wrote, beyond what the setting
        says."""
        return (
            frozenset() if self.settings.realtime == "on" else frozenset(metadata.realtime_starts)
        )

    def _report(self, store: OnlineStore, metadata: StoreMetadata) -> None:
        for name, query in self._queries.items():
            lag, figures = query.lag(), self._lanes[name].source
            if isinstance(query, SourceQuery):
                self._look_at_realtime(store, metadata, query)
                query.enter(store, metadata)
                figures.lost = self._healer.lost_of(query.plan.topic_id, metadata)
                query.fit()
            figures.lagging(lag)
        for name in self._lanes.keys() - self._queries.keys():
            self._lanes[name].source.lagging({})  # nobody applies it: nothing waits
        statuses = self._show()
        applied = sum(status.records for status in statuses)
        if applied > self._applied:
            self._applied, self._failures = applied, 0
        put_statuses(store, self.part, statuses)

    def _look_at_realtime(
        self, store: OnlineStore, metadata: StoreMetadata, query: SourceQuery
    ) -> None:
        """The micro-batch lane takes its time while the real-time lane lives; where it is off, the
        entry goes that one left in another server run of the store."""
        name = query.plan.source.name
        if self.settings.realtime == "on":
            realtime_status = store.run(ReadStatus(f"tail:{name}"))
            query.paced = lives(
                Status.parse(name, realtime_status) if realtime_status else None,
                self.clock.now_us(),
            )
        elif name in metadata.realtime_starts and store.run(EndRealtime(name)):
            event("realtime_ended", source=name)

    def _show(self) -> list[Status]:
        """Shows the statuses where no store is needed; they are the same for the store."""
        statuses = [lane.status() for lane in self._lanes.values()]
        for status in statuses:
            self.metrics.show(status)
        file = self.settings.state_dir / self.part / "heartbeat.json"
        write_heartbeat(file, statuses, self._port, self.settings.realtime)
        return statuses

    def _pause(self, error: SlicewiseError) -> bool:
        """Waits before the next attempt; False when there shall be none."""
        self._interrupt(error)
        pause = _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        warning(
            f"{self.part}_interrupted", failures=self._failures, pause_s=pause, error=str(error)
        )
        for lane in self._lanes.values():
            lane.source.restarted(error.what)
        self._show()
        # a store that is away or empty may stay so for long: that is no fault of the stream
        if self._failures >= _ENDLESS and not isinstance(error, StoreUnavailable | NotReady):
            self._put_state("failed", str(error))
            return False
        self.stop.wait(pause)
        return True

    def _interrupt(self, error: SlicewiseError) -> None:  # noqa: ARG002
        """Ends what cannot go on after the error: all."""
        self._drain("running")
        self._bound = None

    def _drain(self, state: State) -> None:
        queries = self._queries
        for query in queries.values():  # all at once: a batch of each takes its seconds
            query.begin_drain()
        with ThreadPoolExecutor(max(1, len(queries))) as pool:
            drained = {name: pool.submit(query.drain) for name, query in queries.items()}
            while wait(drained.values(), TICK_S).not_done:
                self._show()  # whoever watches this driver sees that it lives
        for name, done in drained.items():
            done.result()
            event("query_drained", source=name)
        queries.clear()
        if state != "running":
            self._put_state(state, None)

    def _give_up(self, error: DriverSuperseded) -> None:
        """Leaves the last word here alone: in the store the other driver speaks by now."""
        for lane in self._lanes.values():
            lane.source.state, lane.source.last_error = "failed", error.what
        self._show()

    def _put_state(self, state: State, error: str | None) -> None:
        """The last word; a store that is away cannot hear it, the heartbeat file does."""
        for lane in self._lanes.values():
            if lane.source.state == "running":
                lane.source.state = state
                lane.source.last_error = error or lane.source.last_error
        statuses = self._show()
        try:
            store = open_store(self.settings.redis_url)
            put_statuses(store, self.part, statuses)
            store.close()
        except (StoreUnavailable, SettingsError) as away:
            warning("status_not_stored", error=away.what)


class _Ended(SlicewiseError):
    """A query ended by an error of Spark's."""

    @staticmethod
    def of(error: BaseException) -> _Ended:
        text = str(error)
        if "may have been lost" in text or "KAFKA_DATA_LOSS" in text:
            raise DataLoss(
                "Kafka lost records that were not applied yet",
                where=text[:400],
                next_step="docs/runbook.md, 'The log no longer holds what the stream needs'",
            ) from error
        return _Ended("a query ended", where=text[:2000], next_step="read the driver's log")
