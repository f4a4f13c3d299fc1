"""A job's state follows from its worker's record and its client's cancellation; one that is over
never moves again.

Pure: time is given, and nothing is read or written (docs/adr/0125).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from slicewise.errors import BadRequest, Overloaded, OverShare

MOST_ATTEMPTS = 3
"""Times that a job is begun: one that ends its process each time is given up."""
MOST_KEPT, MOST_KEPT_PER_CLIENT = 1_000, 100
"""Jobs in the folder, whatever their state; and of one client."""
RETRY_AFTER_S = 30.0
PARQUET, CSV = "parquet", "csv"
FORMATS = (PARQUET, CSV)


class State(StrEnum):
    """State of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE = frozenset({State.WAITING, State.RUNNING})


@dataclass(frozen=True)
class Limits:
    """Bounds of the jobs. waiting: most that wait; per_client: most of one client that wait or run;
    keep_us: for which time one that is over is kept."""

    waiting: int
    per_client: int
    keep_us: int


@dataclass(frozen=True)
class JobRequest:
    """Request for a training set, checked. spine: the file of its folder, or `iceberg:…`.

    key: by which its client sends it again without another job. spine_digest: SHA-256 of the file;
    "" of a table, and without a key.
    """

    id: str
    client: str
    submitted_us: int
    features: str | Sequence[str]
    spine: str
    knowledge: str = "event_time"
    known_at: str | int | None = None
    as_of_definition: str | int | None = None
    engine: str = "auto"
    archive: bool = True
    format: str = PARQUET
    key: str | None = None
    spine_digest: str = ""

    @property
    def data(self) -> str:
        """Name of the file that it becomes."""
        return f"data.{self.format}"


@dataclass(frozen=True)
class Record:
    """The worker's record of a job. error: the members of an error of the API."""

    state: State = State.WAITING
    attempts: int = 0
    begun_us: int | None = None
    ended_us: int | None = None
    progress: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Rows, bytes and content of a set that is done."""
    error: Mapping[str, Any] | None = None
    interruptions: int = 0
    """Attempts that ended because the API did."""


@dataclass(frozen=True)
class Job:
    """A job as its folder shows it. cancelled_us: when its client cancelled it."""

    request: JobRequest
    record: Record = field(default_factory=Record)
    cancelled_us: int | None = None

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def state(self) -> State:
        """A cancelled job stays so, however far its worker came."""
        return self.record.state if self.cancelled_us is None else State.CANCELLED

    @property
    def active(self) -> bool:
        """Tells whether it waits or runs."""
        return self.state in ACTIVE

    @property
    def ended_us(self) -> int | None:
        return self.record.ended_us if self.cancelled_us is None else self.cancelled_us

    def begun(self, now_us: int) -> Record:
        """Record of its next attempt."""
        before = self.record
        return Record(
            State.RUNNING, before.attempts + 1, now_us, interruptions=before.interruptions
        )

    def failed(self, now_us: int, error: Mapping[str, Any]) -> Record:
        """Record of its end with an error."""
        return replace(self.record, state=State.FAILED, ended_us=now_us, error=error)

    def expires_us(self, limits: Limits) -> int | None:
        """Instant at which it is removed; None while it is active."""
        return None if self.ended_us is None else self.ended_us + limits.keep_us


def same_key(jobs: Iterable[Job], client: str, key: str | None) -> Job | None:
    """The job that this client requested by this key, if one is kept."""
    return next(
        (
            job
            for job in jobs
            if key is not None and (job.request.client, job.request.key) == (client, key)
        ),
        None,
    )


def refuse_other(job: Job, request: JobRequest) -> None:
    """Refuses a key that stands for another request. Raises BadRequest."""
    own = replace(request, id=job.id, submitted_us=job.request.submitted_us)
    # as it is read from its file: a list of features, not a tuple
    if json.dumps(to_json(own)) != json.dumps(to_json(job.request)):
        raise BadRequest(
            f"the key {request.key!r} stands for another request",
            where="Idempotency-Key",
            expected=f"the request of training set {job.id}, or another key",
            next_step="make a new key for each training set",
        )


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Jobs in the order in which they came, and are worked."""
    return sorted(jobs, key=lambda job: (job.request.submitted_us, job.id))


def refuse(jobs: Sequence[Job], client: str, limits: Limits) -> None:
    """Refuses one more job where there are too many. Raises Overloaded, OverShare."""
    own = sum(job.active and job.request.client == client for job in jobs)
    waiting = sum(job.state is State.WAITING for job in jobs)
    if own >= limits.per_client:
        raise OverShare(
            f"{own} training sets of this client wait or are built",
            where="training-sets",
            expected=f"at most {limits.per_client}",
            retry_after_s=RETRY_AFTER_S,
            next_step="wait until one is done, or cancel one: DELETE /v1/training-sets/{id}",
        )
    kept = sum(job.request.client == client for job in jobs)
    if kept >= MOST_KEPT_PER_CLIENT:
        raise OverShare(
            f"{kept} training sets of this client are kept",
            where="training-sets",
            expected=f"at most {MOST_KEPT_PER_CLIENT}",
            retry_after_s=RETRY_AFTER_S,
            next_step="remove those that nobody needs: DELETE /v1/training-sets/{id}",
        )
    if waiting >= limits.waiting or len(jobs) >= MOST_KEPT:
        what = f"{waiting} wait" if waiting >= limits.waiting else f"{len(jobs)} are kept"
        raise Overloaded(
            f"{what}, and no more training sets are taken",
            where="training-sets",
            expected=f"at most {limits.waiting} that wait, and {MOST_KEPT} that are kept",
            retry_after_s=RETRY_AFTER_S,
            next_step="submit it later; remove those that nobody needs any more",
        )


def to_json(value: JobRequest | Record) -> dict[str, Any]:
    """Members of a request or a record."""
    return asdict(value)


def request_of(raw: Mapping[str, Any]) -> JobRequest:
    """Inverse of `to_json`."""
    return JobRequest(**raw)


def record_of(raw: Mapping[str, Any]) -> Record:
    """Inverse of `to_json`."""
    return Record(**{**raw, "state": State(raw["state"])})
