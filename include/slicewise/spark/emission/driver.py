"""The emission's driver is a stream's driver whose queries publish; the store tells it what is
deployed, no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from slicewise.emission.ticks import emitted_views
from slicewise.features.plan.deployment import Deployment
from slicewise.spark.driver import Driver
from slicewise.spark.emission.query import EmissionQuery
from slicewise.spark.emission.status import EmissionMetrics, EmissionStatus
from slicewise.spark.microbatch.healing import Onlooker
from slicewise.spark.microbatch.status import Metrics
from slicewise.spark.runtime.log import event
from slicewise.stores.online.control_record import StoreMetadata


@dataclass
class EmissionDriver(Driver):
    """One process's emissions. `run` returns the exit code."""

    part: ClassVar[str] = "emit"
    metrics: Metrics = field(default_factory=EmissionMetrics)

    def __post_init__(self) -> None:
        self._healer = Onlooker()

    def _open(self) -> None:
        """Nothing: the log is read without Spark."""

    def _start(self, deployment: Deployment, manifest: str, metadata: StoreMetadata) -> None:  # noqa: ARG002
        for source in deployment.sources:
            if source.is_opening or not emitted_views(deployment, source.name):
                continue
            status = self._statuses.get(source.name)
            if not isinstance(status, EmissionStatus):
                status = EmissionStatus(source.name, self.clock, self.metrics)
                self._statuses[source.name] = status
            status.state = "running"
            query = EmissionQuery(self.settings, deployment, source, status, self.clock)
            self._queries[source.name] = query
            event(
                "query_started", source=source.name, deployment_version=metadata.deployment_version
            )
