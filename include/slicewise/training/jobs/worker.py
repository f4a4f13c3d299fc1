"""One process works the requested training sets, one after another, and ends them when it must end.

An interruption is an exception in the main thread, so that Spark's process ends and files in
between go; what does not let go of the thread ends with the process. Whatever ends it, the next
worker begins the job again (docs/adr/0125).
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from slicewise import log
from slicewise.clock import Clock
from slicewise.errors import ServerError, SlicewiseError, StoreUnavailable, wire_of
from slicewise.settings import Settings
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import MOST_ATTEMPTS, Job, State
from slicewise.training.jobs.building import build

IDLE_S = 60.0
"""The process ends when nothing waits for so long."""
GRACE_S = 20.0
"""Time that an interrupted job has to end what it began."""
_LOOKED_EVERY_S = 0.2
Build = Callable[[Settings, JobFolder, Job, Callable[[str], None]], dict[str, Any]]


class Interrupted(BaseException):
    """The job in work ends here: it was cancelled, or the process is to end."""


@dataclass
class Worker:
    """The worker of a folder. Runs in the main thread of its process."""

    settings: Settings
    folder: JobFolder
    clock: Clock
    idle_s: float = IDLE_S
    build: Build = build
    _current: str | None = None
    """Job in work, which may be interrupted."""
    _working: str | None = None
    """Job in work, until its work is over."""
    _cancelled: str | None = None
    """Job that the signal which is on its way is for; None: it is for the process."""
    _ends: threading.Event = field(default_factory=threading.Event)
    """Set where the process is to end."""
    _over: threading.Event = field(default_factory=threading.Event)
    """Set where the work is over."""

    def run(self, parent: int | None = None) -> None:
        """Works until nothing waits for long, or the process is to end; not at all where another
        process works. parent: a pipe that ends with the process that began this one."""
        signal.signal(signal.SIGTERM, self._signalled)
        watch = threading.Thread(target=self._watch, args=(parent,), daemon=True)
        watch.start()
        try:
            with self.folder.working() as taken:
                if taken:
                    self._work_all()
        finally:
            self._over.set()
            watch.join()  # no signal comes any more

    def _work_all(self) -> None:
        idle_since = time.monotonic()
        while not self._ends.is_set():
            job = self.folder.next()
            if job is not None:
                try:
                    self._work(job)
                except OSError as error:  # no room for a record: the job is as it was
                    log.warning("training_set_not_recorded", id=job.id, error=str(error))
                    self._ends.wait(1.0)
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since >= self.idle_s:
                return
            else:
                self._ends.wait(_LOOKED_EVERY_S)

    def _work(self, job: Job) -> None:
        begun = time.monotonic()
        try:
            with suppress(FileNotFoundError):  # removed
                if job.record.attempts - job.record.interruptions >= MOST_ATTEMPTS:
                    self.folder.record(job.id, job.failed(self.clock.now_us(), _given_up(job)))
                    return
                record = job.begun(self.clock.now_us())
                self.folder.record(job.id, record)
                self.folder.tidy(job)
                self._current = self._working = job.id
                self._build(replace(job, record=record))
        except Interrupted:
            log.event("training_set_interrupted", id=job.id)
            if self._ends.is_set():  # which is no fault of the job
                self._count_interruption(job.id)
        finally:
            self._current = self._working = None
        now = self.folder.job(job.id)
        if now is not None and now.state in (State.CANCELLED, State.FAILED):
            self.folder.discard(job.id)
        state = "removed" if now is None else now.state.value
        seconds = round(time.monotonic() - begun, 2)
        log.event("training_set_worked", id=job.id, state=state, seconds=seconds)

    def _count_interruption(self, job_id: str) -> None:
        job = self.folder.job(job_id)
        if job is not None and job.active:
            with suppress(OSError):
                record = job.record
                counted = replace(record, interruptions=record.interruptions + 1)
                self.folder.record(job_id, counted)

    def _build(self, job: Job) -> None:
        record = job.record

        def notify(line: str) -> None:
            self.folder.record(job.id, replace(record, progress=str(line)))

        try:
            result = self.build(self.settings, self.folder, job, notify)
            self._current = None  # from here on it is done
            done = replace(record, state=State.DONE, ended_us=self.clock.now_us(), result=result)
            self.folder.record(job.id, done)
            self.folder.file(job.id, job.request.spine).unlink(missing_ok=True)  # stands typed now
        except SlicewiseError as error:
            self._fail(job, error)
        except Exception as error:  # noqa: BLE001  # the next one may be built all the same
            if self.folder.job(job.id) is None:
                return  # its folder was removed, and it wrote there
            log.warning(
                "training_set_broke", id=job.id, kind=type(error).__name__, error=str(error)
            )
            unforeseen = StoreUnavailable(
                f"the training set could not be built: {type(error).__name__}",
                where="training-sets",
                next_step="see the API's log, which has the reason; then submit it again",
            )
            self._fail(job, unforeseen)

    def _fail(self, job: Job, error: SlicewiseError) -> None:
        self._current = None
        spine = str(self.folder.file(job.id, job.request.spine))
        members = {
            name: self._scrubbed(text and text.replace(spine, "the body"))
            for name, text in wire_of(error).items()
        }
        self.folder.record(job.id, job.failed(self.clock.now_us(), members))

    def _scrubbed(self, text: str | None) -> str | None:
        """A message without folders of this machine: it goes to whoever asked for the set."""
        for path, shown in (
            (self.folder.path, "the job's folder"),
            (self.settings.state_dir, "<state>"),
            (self.settings.home, "<home>"),
        ):
            text = text and text.replace(str(path), shown)
        return text

    # ------------------------------------------------------------ interruption
    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is None:
            self._ends.set()
        current = self._current
        # one that came too late for its job is not for the next one
        if current is not None and cancelled in (None, current):
            self._current = None
            raise Interrupted

    def _is_cancelled(self, job_id: str) -> bool:
        job = self.folder.job(job_id)
        return job is None or job.state is State.CANCELLED

    def _watch(self, parent: int | None) -> None:
        """Interrupts the job in work where it was cancelled, or where the parent is gone."""
        while not self._over.is_set():
            if parent is None:
                self._over.wait(_LOOKED_EVERY_S)
            elif select.select([parent], [], [], _LOOKED_EVERY_S)[0] and not os.read(parent, 1024):
                self._interrupt(None)
                return
            current = self._current
            if current is not None and self._is_cancelled(current):
                self._interrupt(current)

    def _interrupt(self, job_id: str | None) -> None:
        """Interrupts this job, or all work, and ends the process if that takes too long."""
        self._cancelled = job_id
        if not self._over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until:
            if self._over.wait(_LOOKED_EVERY_S) or (job_id and self._working != job_id):
                return
        os._exit(1)


def _given_up(job: Job) -> dict[str, str | None]:
    error = ServerError(
        f"the process that built it ended {job.record.attempts} times",
        where="training-sets",
        expected="a spine and events that have room in memory",
        next_step='submit it with engine="spark", or in smaller parts; the API\'s log has more',
    )
    return wire_of(error)
