"""A worker leaves each job with an end that its client can read, and goes on with the next one."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slicewise.clock import ManualClock
from slicewise.errors import BadRequest
from slicewise.settings import Settings
from slicewise.stores.jobs.folder import JobFolder
from slicewise.stores.jobs.job import MOST_ATTEMPTS, Job, JobRequest, Limits, State
from slicewise.training.jobs import building
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


def test_a_job_that_an_api_interrupted_often_is_built_all_the_same(folder: JobFolder) -> None:
    job, begun = submit(folder, 1), []

    def build(_: Settings, __: JobFolder, job: Job, ___: Notify) -> dict[str, Any]:
        begun.append(job.record.attempts)
        if len(begun) <= MOST_ATTEMPTS + 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return {}

    for _ in range(MOST_ATTEMPTS + 2):
        worked(folder, build)
    assert (read(folder, job).state, begun) == (State.DONE, [1, 2, 3, 4, 5])


def test_a_record_that_has_no_room_leaves_its_job_as_it_was(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, record, full = submit(folder, 1), JobFolder.record, [True, True]

    def recorded(own: JobFolder, job_id: str, of: Any) -> None:
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        record(own, job_id, of)

    monkeypatch.setattr(JobFolder, "record", recorded)
    worked(folder, lambda *_: {})
    assert read(folder, job).state is State.DONE


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_a_small_file_that_is_large_in_memory_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "MOST_BYTES", 1 << 20)
    text = pa.array(["x" * 10_000]).dictionary_encode().dictionary
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, pa.int32()), text)
    table = pa.table({"user_id": rows.cast(pa.string())})
    path = tmp_path / f"spine.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
        assert path.stat().st_size < 100_000
    else:
        opened = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with opened(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    with pytest.raises(BadRequest, match="as it is in memory"):
        building._refuse_large(path)


def test_a_spine_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spine.parquet"
    pq.write_table(pa.table({f"c{n}": [1] for n in range(building.MOST_COLUMNS + 1)}), path)
    with pytest.raises(BadRequest, match="columns"):
        building._refuse_large(path)


def test_the_name_that_is_recorded_says_nothing_of_the_id() -> None:
    job_id = "0123456789abcdef" * 2
    name = building.recorded_name(job_id)
    assert name == building.recorded_name(job_id)
    assert not any(job_id[i : i + 6] in name for i in range(26))
