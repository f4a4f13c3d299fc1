"""A job is a folder that takes its name when its request and spine are whole; files of it are
replaced, never changed.

Processes share the folder: several of the API submit, read and cancel, and one at a time works.
Locks of the operating system end with their process, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from slicewise import log
from slicewise.stores.jobs.job import (
    Job,
    JobRequest,
    Limits,
    Record,
    State,
    in_order,
    record_of,
    refuse,
    refuse_other,
    request_of,
    same_key,
    to_json,
)

FOLDER = "training-sets"
"""Name of the folder, below that of the state."""
_REQUEST, _RECORD, _CANCELLED = "request.json", "record.json", "cancelled.json"
_KEPT = frozenset({_REQUEST, _RECORD, _CANCELLED})
_SUBMITTING, _WORKING = ".submitting.lock", ".working.lock"
_INCOMING, _REMOVED = ".incoming-", ".removed-"
_ABANDONED_S = 3600.0
"""Age of an upload whose process must have ended."""
_ID = re.compile(r"[0-9a-f]{32}")


def is_id(text: str) -> bool:
    """Tells whether a text may be a job's id; no other text becomes part of a path."""
    return _ID.fullmatch(text) is not None


class JobFolder:
    """The jobs of a state folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._over: dict[str, Job] = {}
        """Jobs that are over: they change no more until they are removed."""
        self._unreadable: set[str] = set()
        """Jobs that were warned of."""

    # ------------------------------------------------------------ submission
    @contextmanager
    def incoming(self) -> Iterator[tuple[str, Path]]:
        """A new id, and a folder for its spine; gone afterwards, unless it was submitted."""
        job_id = token_hex(16)
        folder = self.path / f"{_INCOMING}{job_id}"
        folder.mkdir(parents=True)
        try:
            yield job_id, folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def submit(self, request: JobRequest, limits: Limits) -> Job:
        """Makes a job of what came in; where its key came before, that job.

        Raises Overloaded, OverShare, and BadRequest for a key that stands for another request.
        """
        incoming = self.path / f"{_INCOMING}{request.id}"
        _write(incoming / _REQUEST, to_json(request))
        with _locked(self.path / _SUBMITTING):
            jobs = self.jobs()
            before = same_key(jobs, request.client, request.key)
            if before is not None:
                refuse_other(before, request)
                return before
            refuse(jobs, request.client, limits)
            incoming.rename(self.path / request.id)
        return Job(request)

    # ------------------------------------------------------------ reading
    def jobs(self) -> list[Job]:
        """All jobs, in the order in which they came."""
        try:
            names = [path.name for path in self.path.iterdir() if is_id(path.name)]
        except FileNotFoundError:
            return []
        over = self._over  # replaced, never changed: several threads read it
        read = (over.get(name) or self.job(name) for name in names)
        jobs = in_order(job for job in read if job is not None)
        self._over = {job.id: job for job in jobs if not job.active}
        return jobs

    def job(self, job_id: str) -> Job | None:
        """The job of this id, if there is one that can be read."""
        try:
            return self._job(self.path / job_id)
        except (ValueError, TypeError, KeyError) as error:  # damaged, or of another version
            if job_id not in self._unreadable:
                self._unreadable.add(job_id)
                log.warning("training_set_unreadable", id=job_id, error=str(error))
            return None

    def _job(self, folder: Path) -> Job | None:
        request, record, cancelled = (
            _read(folder / name) for name in (_REQUEST, _RECORD, _CANCELLED)
        )
        if request is None:
            return None
        return Job(
            request_of(request),
            Record() if record is None else record_of(record),
            None if cancelled is None else cancelled["at_us"],
        )

    def file(self, job_id: str, name: str) -> Path:
        """A file of a job."""
        return self.path / job_id / name

    # ------------------------------------------------------------ ends
    def cancel(self, job: Job, now_us: int) -> None:
        """Marks an active job: its worker ends it when it sees the mark."""
        try:
            with suppress(FileNotFoundError):  # removed meanwhile
                _write(self.file(job.id, _CANCELLED), {"at_us": now_us})
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.remove(job.id)  # a full disk: that takes no room, and ends its work as well

    def remove(self, job_id: str) -> None:
        """Removes a job and all that it has."""
        gone = self.path / f"{_REMOVED}{job_id}"
        with suppress(FileNotFoundError):
            (self.path / job_id).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def discard(self, job_id: str) -> None:
        """Removes the spine and the files of a job that was cancelled or failed."""
        with suppress(FileNotFoundError):
            for path in (self.path / job_id).iterdir():
                if path.name not in _KEPT:
                    path.unlink(missing_ok=True)

    def tidy(self, job: Job) -> None:
        """Removes what an attempt before this one left of the job's files."""
        for path in (self.path / job.id).glob(".data.*"):
            path.unlink(missing_ok=True)

    def sweep(self, limits: Limits, now_us: int) -> list[Job]:
        """Removes what expired, and what processes that were killed left. The jobs that stay."""
        jobs = []
        for job in self.jobs():
            expires_us = job.expires_us(limits)
            if expires_us is not None and expires_us <= now_us:
                self.remove(job.id)
                continue
            if job.state in (State.CANCELLED, State.FAILED):
                self.discard(job.id)
            jobs.append(job)
        with suppress(FileNotFoundError):
            for path in self.path.iterdir():
                age_s = time.time() - path.stat().st_mtime
                if path.name.startswith(_REMOVED) or (
                    path.name.startswith(_INCOMING) and age_s > _ABANDONED_S
                ):
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name in self._unreadable and age_s > limits.keep_us / 1e6:
                    self.remove(path.name)
        return jobs

    # ------------------------------------------------------------ work
    @contextmanager
    def working(self) -> Iterator[bool]:
        """Takes the work: one process has it at a time. Gives False where another one has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _WORKING).open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def is_worked(self) -> bool:
        """Tells whether a process has the work."""
        with self.working() as taken:
            return not taken

    def next(self) -> Job | None:
        """The job to be worked by whoever has the work: one that runs was its predecessor's."""
        return next((job for job in self.jobs() if job.active), None)

    def record(self, job_id: str, record: Record) -> None:
        """Replaces the record of a job. Raises FileNotFoundError where it was removed."""
        _write(self.file(job_id, _RECORD), to_json(record))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, value: Mapping[str, Any]) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_text(json.dumps(value), encoding="utf-8")
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def _read(path: Path) -> dict[str, Any] | None:
    try:
        read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return read
