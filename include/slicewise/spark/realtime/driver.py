"""The real-time lane's driver is a stream's driver whose queries bring events one by one; each
partition holds a slot."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

from slicewise.errors import ServerError, SlicewiseError, StoreUnavailable
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.realtime import realtime_units, slots
from slicewise.spark.driver import Driver
from slicewise.spark.healing import Onlooker
from slicewise.spark.microbatch.streaming import plan_stream
from slicewise.spark.realtime.figures import WriterFigures
from slicewise.spark.realtime.query import RealtimeQuery
from slicewise.spark.runtime.log import event
from slicewise.spark.runtime.session import realtime_session, task_slots
from slicewise.spark.runtime.status_sinks import Metrics, realtime_metrics
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.port import OnlineStore

_EXECUTORS_S = 30.0
"""For how long a cluster may take to give what it has."""


@dataclass
class RealtimeDriver(Driver):
    """One process's real-time lanes. `run` returns the exit code."""

    part: ClassVar[str] = "tail"
    setting: ClassVar[str] = "realtime"
    metrics: Metrics = field(default_factory=realtime_metrics)
    _slots: int = 0
    _relieves: bool = False
    """Tells whether there are slots for two queries of each source at a time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._healer = Onlooker()

    def _open(self) -> None:
        """Nothing: how many slots there must be, the deployment says."""

    def _realtime_sources(self, metadata: StoreMetadata) -> frozenset[str]:  # noqa: ARG002
        """The driver's own doing, and nothing to plan anew for."""
        return frozenset()

    def _start(self, deployment: Deployment, manifest: str, metadata: StoreMetadata) -> None:  # noqa: ARG002
        units = {
            source.name: realtime_units(deployment, source.name) for source in deployment.sources
        }
        plans = []
        with KafkaLog(self.settings.kafka_bootstrap) as log:
            for source in deployment.sources:
                if units[source.name] and not source.is_opening:
                    plans.append(plan_stream(deployment, source, metadata, log))
        figures = {plan.source.name: self._lane(plan.source.name, WriterFigures) for plan in plans}
        try:
            self._have({plan.source.name: len(plan.start) for plan in plans})
        except ServerError as error:
            for lane in figures.values():
                lane.source.waiting = error.what
            self._put_state("running", error.what)
            raise
        assert self._session is not None
        for plan in plans:
            name = plan.source.name
            self._queries[name] = RealtimeQuery(
                self._session,
                self.settings,
                plan,
                units[name],
                figures[name],
                relieves=self._relieves,
            )
            event("query_started", source=name, deployment_version=plan.deployment_version)

    def _have(self, partitions: dict[str, int]) -> None:
        """A session with a slot for each partition. ServerError where a cluster has fewer."""
        needed, wanted = sum(partitions.values()), slots(partitions)
        if self._session is not None and wanted > self._slots:
            event("session_restarted", slots=self._slots, needed=wanted)
            self._session.stop()
            self._session = None
        if self._session is None:
            self._session, self._slots = realtime_session(self.settings, wanted), wanted
        deadline = time.monotonic() + _EXECUTORS_S
        while (available := task_slots(self._session)) < needed:
            if time.monotonic() > deadline:
                raise ServerError(
                    (
                        f"{available} slots for {needed} partitions: real-time mode holds one for "
                        "each, for ever"
                    ),
                    where=", ".join(
                        (
                            self._session.sparkContext.master,
                            *(f"{n}: {p}" for n, p in partitions.items()),
                        )
                    ),
                    expected=f"at least {needed} cores of executors",
                    next_step=(
                        "give the real-time lane's driver more cores, or turn the real-time lane "
                        "off: SLICEWISE_REALTIME=off"
                    ),
                )
            self._show()
            self.stop.wait(1.0)
        self._relieves = available >= 2 * needed
        if not self._relieves:
            event("batches_pause", slots=available, expected=2 * needed)

    def _interrupt(self, error: SlicewiseError) -> None:
        """A store that is away is the writers' affair: they connect again to the same server run,
        and end with any other. A topic that is gone is not: what is read under its name next may be
        another's."""
        if type(error) is not StoreUnavailable:
            super()._interrupt(error)

    def _report(self, store: OnlineStore, metadata: StoreMetadata) -> None:
        for query in self._queries.values():
            assert isinstance(query, RealtimeQuery)
            query.look(store, metadata)
        super()._report(store, metadata)
