"""A process is started where a job waits that nobody works, and given up where it does not
start."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from slicewise.clock import SystemClock
from slicewise.serving.http.training_sets.process import MOST_FAILED_STARTS, JobProcess
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import Job, JobRequest, Limits, State

LIMITS = Limits(waiting=3, per_client=2, keep_us=3_600_000_000)
SILENT = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(); sys.stdin.read()"
ENDS = "import pathlib, sys; open(sys.argv[1], 'a').write('x'); sys.exit(1)"


def submitted(folder: JobFolder) -> Job:
    with folder.incoming() as (job_id, _):
        request = JobRequest(job_id, "ann", SystemClock().now_us(), "s", "spine.csv")
        return folder.submit(request, LIMITS)


async def run(
    folder: JobFolder, text: str, mark: Path, holds: Callable[[], bool]
) -> list[Counter[State]]:
    """Looks until something holds, with this program as the process."""
    counts: list[Counter[State]] = []
    program = (sys.executable, "-c", text, str(mark))
    process = JobProcess(folder, LIMITS, SystemClock(), counts.append, program)
    looks = asyncio.ensure_future(process.run())
    try:
        async with asyncio.timeout(60):
            while not holds():
                process.wake()
                await asyncio.sleep(0.02)
        return counts
    finally:
        looks.cancel()
        await process.end()


def state(folder: JobFolder, job: Job) -> State:
    read = folder.job(job.id)
    assert read is not None
    return read.state


def test_a_waiting_job_starts_it_and_it_ends_with_its_pipe(tmp_path: Path) -> None:
    folder, mark = JobFolder(tmp_path / "sets"), tmp_path / "mark"
    job = submitted(folder)
    counts = asyncio.run(run(folder, SILENT, mark, mark.exists))
    assert counts[-1] == {State.WAITING: 1}
    assert state(folder, job) is State.WAITING


def test_without_a_job_nothing_is_started(tmp_path: Path) -> None:
    folder, mark = JobFolder(tmp_path / "sets"), tmp_path / "mark"
    looks = iter(range(20))
    asyncio.run(run(folder, SILENT, mark, lambda: next(looks, None) is None))
    assert not mark.exists()
    assert not folder.path.exists()


def test_a_job_that_another_process_works_starts_none(tmp_path: Path) -> None:
    folder, mark = JobFolder(tmp_path / "sets"), tmp_path / "mark"
    submitted(folder)
    looks = iter(range(20))
    with JobFolder(folder.path).working() as taken:
        assert taken
        asyncio.run(run(folder, SILENT, mark, lambda: next(looks, None) is None))
    assert not mark.exists()


def test_where_it_does_not_start_the_jobs_have_failed(tmp_path: Path) -> None:
    folder, mark = JobFolder(tmp_path / "sets"), tmp_path / "mark"
    job = submitted(folder)
    asyncio.run(run(folder, ENDS, mark, lambda: state(folder, job) is State.FAILED))
    assert mark.read_text() == "x" * MOST_FAILED_STARTS
    read = folder.job(job.id)
    assert read is not None
    assert read.record.error is not None
    assert "slicewise[training]" in read.record.error["expected"]
