"""A job tells an OpenLineage receiver what it reads and writes; it never waits for the receiver,
and never fails for it.

All of it, imports too, is done by a thread. Spark's own listener does not see what Iceberg tables
are written here (docs/adr/0107).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import SimpleQueue
from time import monotonic
from typing import Any
from uuid import uuid4

from slicewise.clock import Clock
from slicewise.lifecycle.lineage.datasets import Namespaces
from slicewise.lifecycle.lineage.steps import Scope, Step, steps_of
from slicewise.log import warning
from slicewise.settings import Settings

PARENT, ROOT = "OPENLINEAGE_PARENT_ID", "OPENLINEAGE_ROOT_PARENT_ID"
"""Variables that name the run which began this one."""
_KEY = "OPENLINEAGE_API_KEY"
_TIMEOUT_S = 3.0
_PATIENCE_S = 1.0
"""Longest that the end of a job waits for what is still on its way."""
_AWAY_S = 60.0
"""Time for which a receiver that failed is sent nothing."""
_PRODUCER = "urn:slicewise"


@dataclass(frozen=True)
class _Notice:
    """Words about a run, to be sent. step: one of the job's; none: about the job itself."""

    kind: str
    at_us: int
    step: Step | None = None
    error: str = ""


@dataclass
class Lineage:
    """Lineage of one run of a job."""

    settings: Settings
    job: str
    clock: Clock
    streaming: bool = False
    _queue: SimpleQueue[_Notice | None] = field(default_factory=SimpleQueue)
    _thread: threading.Thread | None = None
    _last: bool = False

    def begin(self) -> None:
        """Says that the job runs; nothing where no receiver is set."""
        if not self.settings.lineage_url:
            return
        sender = _Sender(self.settings, self.job, self.streaming, self._queue)
        self._thread = threading.Thread(target=sender.run, name="lineage", daemon=True)
        self._thread.start()
        self._put("START")

    def running(self, manifest: str | Mapping[str, Any]) -> None:
        """Says what a job that goes on reads and writes, by the deployment's JSON."""
        for step in self._steps(manifest, Scope()):
            self._put("RUNNING", step)

    def complete(self, manifest: str | Mapping[str, Any], scope: Scope | None = None) -> None:
        """Says that the job is done, and what each of its steps read and wrote."""
        for step in self._steps(manifest, scope or Scope()):
            self._put("COMPLETE", step)
        self.end("COMPLETE")

    def end(self, kind: str, error: str = "") -> None:
        """Says how the job ended, once. kind: COMPLETE, FAIL or ABORT."""
        if not self._last:
            self._last = True
            self._put(kind, error=error)

    def close(self) -> None:
        """Waits a moment for what is still to be sent."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_PATIENCE_S)

    def _steps(self, manifest: str | Mapping[str, Any], scope: Scope) -> Sequence[Step]:
        if self._thread is None:
            return ()
        import json

        from slicewise.spark.lineage.types import types_of

        read = json.loads(manifest) if isinstance(manifest, str) else manifest
        namespaces = Namespaces.of(self.settings)
        return steps_of(self.job, read, namespaces, scope, types_of(read))

    def _put(self, kind: str, step: Step | None = None, error: str = "") -> None:
        if self._thread is not None:
            self._queue.put(_Notice(kind, self.clock.now_us(), step, error))


@contextmanager
def lineage_of(settings: Settings, job: str, clock: Clock) -> Iterator[Lineage]:
    """The lineage of a bounded job: a run that says nothing else has failed."""
    lineage = Lineage(settings, job, clock)
    lineage.begin()
    try:
        yield lineage
    except BaseException as error:
        lineage.end("FAIL", f"{type(error).__name__}: {error}")
        raise
    finally:
        lineage.end("FAIL")
        lineage.close()


class _Sender:
    """Sends what is queued, in a thread of its own."""

    def __init__(
        self, settings: Settings, job: str, streaming: bool, queue: SimpleQueue[_Notice | None]
    ) -> None:
        self._settings, self._job, self._streaming = settings, job, streaming
        self._queue = queue
        self._run_id = str(uuid4())
        self._steps: dict[str, str] = {}
        self._away_until_s = 0.0

    def run(self) -> None:
        emit: Callable[[Any], None] | None = None
        while (notice := self._queue.get()) is not None:
            if monotonic() < self._away_until_s:
                continue
            try:
                emit = emit or self._client()
                emit(self._event(notice))
            except Exception as error:  # noqa: BLE001
                # its own text may carry the address, which may have a secret
                warning("lineage_not_sent", job=self._job, error=type(error).__name__)
                self._away_until_s = monotonic() + _AWAY_S

    def _client(self) -> Callable[[Any], None]:
        from openlineage.client import OpenLineageClient
        from openlineage.client.transport.http import (
            HttpConfig,
            HttpTransport,
            create_token_provider,
        )

        key = os.environ.get(_KEY)
        auth = {"type": "api_key", "apiKey": key} if key else {}
        config = HttpConfig(
            url=self._settings.lineage_url,
            timeout=_TIMEOUT_S,
            auth=create_token_provider(auth),
            retry={"total": 0},
        )
        emit: Callable[[Any], None] = OpenLineageClient(transport=HttpTransport(config)).emit
        return emit

    def _event(self, notice: _Notice) -> Any:
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import RunFacet, error_message_run, job_type_job

        from slicewise.spark.lineage.facets import input_of, output_of, parent_of

        namespace, step = self._settings.lineage_namespace, notice.step
        name, run_id, facets = self._job, self._run_id, dict[str, RunFacet]()
        if step is not None and step.name:
            name = f"{self._job}.{step.name}"
            run_id = self._steps.setdefault(step.name, str(uuid4()))
            parent = f"{namespace}/{self._job}/{self._run_id}"
        else:
            parent = os.environ.get(PARENT, "")
        if parent:
            facets["parent"] = parent_of(parent, os.environ.get(ROOT, ""))
        if notice.error:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(notice.error, "PYTHON")
        kind = job_type_job.JobTypeJobFacet(
            "STREAMING" if self._streaming else "BATCH", "SLICEWISE", "JOB"
        )
        return RunEvent(
            eventType=RunState[notice.kind],
            eventTime=datetime.fromtimestamp(notice.at_us / 1e6, UTC).isoformat(),
            run=Run(run_id, facets),
            job=Job(namespace, name, {"jobType": kind}),
            producer=_PRODUCER,
            inputs=[input_of(one) for one in step.inputs] if step else [],
            outputs=[output_of(one) for one in step.outputs] if step else [],
        )
