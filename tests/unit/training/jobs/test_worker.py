"""A worker leaves each job with an end that its client can read, and goes on with the next one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import BadRequest
from slicewise.settings import Settings
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import MOST_ATTEMPTS, Job, JobRequest, Limits, State
from slicewise.training.jobs.worker import Worker

LIMITS = Limits(waiting=9, per_client=9, keep_us=1_000)
Notify = Callable[[str], None]


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "state" / "training-sets")


def submit(folder: JobFolder, at_us: int) -> Job:
    with folder.incoming() as (job_id, path):
        (path / "spine.csv").write_text("at\n")
        return folder.submit(JobRequest(job_id, "ann", at_us, "s", "spine.csv"), LIMITS)


def worked(folder: JobFolder, build: Callable[..., dict[str, Any]]) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(folder.path.parent)})
    Worker(settings, folder, ManualClock(100), idle_s=0.0, build=build).run()


def read(folder: JobFolder, job: Job) -> Job:
    now = folder.job(job.id)
    assert now is not None
    return now


def test_jobs_are_built_in_turn_with_their_latest_step(folder: JobFolder) -> None:
    jobs, steps = [submit(folder, 1), submit(folder, 2)], []

    def build(_: Settings, own: JobFolder, job: Job, notify: Notify) -> dict[str, Any]:
        notify("looking")
        steps.append((job.id, read(own, job).record.progress))
        own.file(job.id, "data.parquet").write_bytes(b"PAR1")
        return {"rows": 3}

    worked(folder, build)
    assert steps == [(job.id, "looking") for job in jobs]
    for job in jobs:
        now = read(folder, job)
        assert (now.state, now.record.result, now.ended_us) == (State.DONE, {"rows": 3}, 100)
        assert not folder.file(job.id, "spine.csv").exists()
        assert folder.file(job.id, "data.parquet").exists()


def test_one_that_fails_keeps_none_of_the_others_from_being_built(folder: JobFolder) -> None:
    bad, broken, good = (submit(folder, i) for i in range(3))

    def build(settings: Settings, own: JobFolder, job: Job, _: Notify) -> dict[str, Any]:
        if job.id == bad.id:
            where = str(own.file(job.id, "spine.csv"))
            raise BadRequest(
                f"{where} has no rows", where=f"{settings.state_dir}/logs", next_step="see it"
            )
        if job.id == broken.id:
            raise ZeroDivisionError
        return {}

    worked(folder, build)
    refused, broke = read(folder, bad).record.error, read(folder, broken).record.error
    assert refused == {
        "kind": "BadRequest",
        "what": "the body has no rows",
        "where": "<state>/logs",
        "expected": None,
        "next_step": "see it",
    }
    assert broke is not None
    assert (broke["kind"], "ZeroDivisionError" in broke["what"]) == ("StoreUnavailable", True)
    assert read(folder, good).state is State.DONE
    assert not folder.file(bad.id, "spine.csv").exists()


def test_one_that_is_cancelled_ends_and_the_next_one_is_built(folder: JobFolder) -> None:
    first, second, unwound = submit(folder, 1), submit(folder, 2), []

    def build(_: Settings, own: JobFolder, job: Job, __: Notify) -> dict[str, Any]:
        if job.id == first.id:
            own.file(job.id, "data.parquet").write_bytes(b"PAR1")
            cancel = threading.Timer(0.1, JobFolder(own.path).cancel, (job, 99))
            cancel.start()
            try:
                time.sleep(30)
            finally:
                unwound.append(job.id)
        return {}

    worked(folder, build)
    assert unwound == [first.id]
    assert (read(folder, first).state, read(folder, second).state) == (State.CANCELLED, State.DONE)
    assert not folder.file(first.id, "data.parquet").exists()


def test_one_that_is_removed_while_it_is_built_is_nobodys_fault(folder: JobFolder) -> None:
    first, second = submit(folder, 1), submit(folder, 2)

    def build(_: Settings, own: JobFolder, job: Job, notify: Notify) -> dict[str, Any]:
        if job.id == first.id:
            own.remove(job.id)
        notify("looking")
        return {}

    worked(folder, build)
    assert folder.job(first.id) is None
    assert read(folder, second).state is State.DONE


def test_one_that_ends_its_process_each_time_is_given_up(folder: JobFolder) -> None:
    job = submit(folder, 1)
    for attempt in range(MOST_ATTEMPTS):
        assert read(folder, job).record.attempts == attempt
        folder.record(job.id, read(folder, job).begun(50))
    worked(folder, lambda *_: pytest.fail("begun again"))
    now = read(folder, job)
    assert now.state is State.FAILED
    assert now.record.error is not None
    assert f"ended {MOST_ATTEMPTS} times" in now.record.error["what"]


def test_a_process_that_is_to_end_leaves_its_job_to_the_next_one(folder: JobFolder) -> None:
    first, second = submit(folder, 1), submit(folder, 2)

    def ends(_: Settings, __: JobFolder, ___: Job, ____: Notify) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
        return {}

    worked(folder, ends)
    assert (read(folder, first).state, read(folder, second).state) == (State.RUNNING, State.WAITING)
    worked(folder, lambda *_: {})
    now = read(folder, first)
    assert (now.state, now.record.attempts) == (State.DONE, 2)


def test_an_interruption_that_comes_too_late_is_not_for_the_next_job(folder: JobFolder) -> None:
    first, second = submit(folder, 1), submit(folder, 2)

    def build(_: Settings, __: JobFolder, job: Job, ___: Notify) -> dict[str, Any]:
        if job.id == second.id:
            worker._cancelled = first.id
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
        return {}

    settings = Settings.load({"SLICEWISE_STATE": str(folder.path.parent)})
    worker = Worker(settings, folder, ManualClock(100), idle_s=0.0, build=build)
    worker.run()
    now = read(folder, second)
    assert (now.state, now.record.attempts) == (State.DONE, 1)
