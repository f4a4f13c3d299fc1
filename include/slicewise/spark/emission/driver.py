"""The emission's driver is a stream's driver whose queries publish; the store tells it what is
deployed, no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from slicewise.emission.ticks import emitted_views
from slicewise.features.plan.deployment import Deployment
from slicewise.spark.driver import Driver
from slicewise.spark.emission.figures import ViewFigures
from slicewise.spark.emission.query import EmissionQuery
from slicewise.spark.healing import Onlooker
from slicewise.spark.runtime.log import event
from slicewise.spark.runtime.status_sinks import Metrics, emission_metrics
from slicewise.stores.online.control_record import StoreMetadata


@dataclass
class EmissionDriver(Driver):
    """One process's emissions. `run` returns the exit code."""

    part: ClassVar[str] = "emit"
    metrics: Metrics = field(default_factory=emission_metrics)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._healer = Onlooker()

    def _open(self) -> None:
        """Nothing: the log is read without Spark."""

    def _start(self, deployment: Deployment, manifest: str, metadata: StoreMetadata) -> None:  # noqa: ARG002
        for name, lane in self._lanes.items():
            if isinstance(lane, ViewFigures):
                lane.keep({emitted.view for emitted in emitted_views(deployment, name)})
        for source in deployment.sources:
            if source.is_opening or not emitted_views(deployment, source.name):
                continue
            figures = self._lane(source.name, ViewFigures)
            query = EmissionQuery(self.settings, deployment, source, figures, self.clock)
            self._queries[source.name] = query
            event(
                "query_started", source=source.name, deployment_version=metadata.deployment_version
            )
