"""A process beside the API works its training sets; of several processes of the API one starts it.

Whoever looks finds waiting jobs that nobody works, also those of a process that was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from slicewise import log
from slicewise.clock import Clock
from slicewise.errors import ServerError, wire_of
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import Job, Limits, State

LOOK_EVERY_S = 1.0
MOST_FAILED_STARTS = 3
"""Starts in a row that came to no job; then those that wait have failed."""
END_S = 8.0
"""Longest that a process may take to end its job; then it is killed."""
PROGRAM = (sys.executable, "-m", "slicewise.training.jobs")


class JobProcess:
    """The worker's process, and the look at the folder that starts it."""

    def __init__(
        self,
        folder: JobFolder,
        limits: Limits,
        clock: Clock,
        counted: Callable[[Counter[State]], None],
        program: Sequence[str] = PROGRAM,
    ) -> None:
        """counted: is given the number of jobs by state, at every look."""
        self._folder, self._limits, self._clock = folder, limits, clock
        self._counted, self._program = counted, program
        self._process: asyncio.subprocess.Process | None = None
        self._failed_starts = 0
        self._attempts = 0
        """Attempts of all jobs when the process was started."""
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Has the next look come at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            self._wanted.clear()
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001  # the next look may come further
                log.warning("training_sets_not_worked", kind=type(error).__name__, error=str(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), LOOK_EVERY_S)

    async def end(self) -> None:
        """Ends the process, and with it the job that it has: the next one begins it again."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()  # it ends with this pipe
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _look(self) -> None:
        now_us = self._clock.now_us()
        jobs = await asyncio.to_thread(self._folder.sweep, self._limits, now_us)
        self._counted(Counter(job.state for job in jobs))
        attempts = sum(job.record.attempts for job in jobs)
        if self._process is not None and self._process.returncode is not None:
            code, self._process = self._process.returncode, None
            failed = code != 0 and attempts <= self._attempts
            self._failed_starts = self._failed_starts + 1 if failed else 0
            if code:
                log.warning("training_sets_worker_ended", code=code)
        active = [job for job in jobs if job.active]
        if self._process is not None or not active:
            return
        if await asyncio.to_thread(self._folder.is_worked):
            return  # by the process of another one of the API
        if self._failed_starts >= MOST_FAILED_STARTS:
            await asyncio.to_thread(self._give_up, active)
            self._failed_starts = 0
            return
        self._attempts = attempts
        self._process = await asyncio.create_subprocess_exec(
            *self._program, stdin=asyncio.subprocess.PIPE
        )
        log.event("training_sets_worker_started", pid=self._process.pid)

    def _give_up(self, active: Sequence[Job]) -> None:
        error = ServerError(
            f"the process that builds training sets does not start: {MOST_FAILED_STARTS} times it "
            "ended at once",
            where="training-sets",
            expected="the libraries of slicewise[training] beside the API, and its settings",
            next_step="see the API's log, which has the reason; then submit it again",
        )
        with self._folder.working() as taken:
            for job in active if taken else ():
                with contextlib.suppress(FileNotFoundError):
                    failed = job.failed(self._clock.now_us(), wire_of(error))
                    self._folder.record(job.id, failed)
