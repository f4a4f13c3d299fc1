"""A job's state follows from its files, and the folder takes no more jobs than its limits allow."""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import BadRequest, Overloaded, OverShare
from slicewise.stores.jobs.folder import JobFolder, is_id
from slicewise.stores.jobs.job import (
    MOST_KEPT_PER_CLIENT,
    Job,
    JobRequest,
    Limits,
    Record,
    State,
    refuse,
)

LIMITS = Limits(waiting=3, per_client=2, keep_us=1_000)


def submit(
    folder: JobFolder, client: str = "ann", at_us: int = 10, key: str | None = None, **more: str
) -> Job:
    with folder.incoming() as (job_id, path):
        (path / "spine.csv").write_text("user_id,at\n")
        request = JobRequest(job_id, client, at_us, "churn_v1", "spine.csv", key=key, **more)  # type: ignore[arg-type]
        return folder.submit(request, LIMITS)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path / "training-sets")


def test_a_job_is_there_whole_or_not_at_all(folder: JobFolder) -> None:
    assert folder.jobs() == []
    with folder.incoming() as (job_id, path):
        (path / "spine.csv").write_text("user_id,at\n")
        assert folder.job(job_id) is None
        assert folder.jobs() == []
    assert [path.name for path in folder.path.iterdir()] == [], "nobody submitted it"
    job = submit(folder)
    assert folder.job(job.id) == job
    assert folder.file(job.id, "spine.csv").read_text() == "user_id,at\n"


def test_jobs_are_worked_in_the_order_in_which_they_came(folder: JobFolder) -> None:
    late, early = submit(folder, "ann", 20), submit(folder, "bob", 10)
    assert folder.next() == early
    running = early.begun(30)
    folder.record(early.id, running)
    assert folder.next() == Job(early.request, running), "of a worker that was killed"
    folder.record(early.id, replace(running, state=State.DONE, ended_us=40))
    assert folder.next() == late


def test_a_client_and_all_of_them_have_a_share(folder: JobFolder) -> None:
    own = [submit(folder), submit(folder)]
    with pytest.raises(OverShare, match="2 training sets of this client"):
        submit(folder)
    submit(folder, "bob")
    with pytest.raises(Overloaded, match="3 wait"):
        submit(folder, "eve")
    folder.cancel(own[0], 50)
    assert submit(folder).state is State.WAITING
    assert len(folder.jobs()) == 4


def test_a_request_that_comes_again_by_its_key_is_the_job_that_it_made(folder: JobFolder) -> None:
    first = submit(folder, key="k", spine_digest="a")
    folder.record(first.id, replace(first.begun(20), state=State.DONE, ended_us=30))
    again = submit(folder, at_us=40, key="k", spine_digest="a")
    assert (again.id, again.state) == (first.id, State.DONE), "in another process too"
    assert submit(folder, client="bob", key="k").id != first.id, "keys are a client's own"
    own = submit(folder, key="l")
    submit(folder, key="m")
    assert submit(folder, key="l").id == own.id, "it takes no share that is not taken already"
    assert len(folder.jobs()) == 4
    assert not list(folder.path.glob(".incoming*"))


@pytest.mark.parametrize("other", [{"spine_digest": "b"}, {"knowledge": "arrival"}])
def test_a_key_stands_for_one_request(folder: JobFolder, other: dict[str, str]) -> None:
    first = submit(folder, key="k", spine_digest="a")
    given: dict[str, Any] = {"spine_digest": "a", **other}
    with pytest.raises(BadRequest, match=f"'k' stands for another(.|\n)*{first.id}"):
        submit(folder, key="k", **given)


def test_requests_by_one_key_at_once_are_one_job(folder: JobFolder) -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = {job.id for job in threads.map(lambda _: submit(folder, key="k"), range(32))}
    assert len(ids) == len(folder.jobs()) == 1


def test_a_cancelled_job_stays_so_however_far_its_worker_came(folder: JobFolder) -> None:
    job = submit(folder)
    folder.record(job.id, job.begun(30))
    folder.cancel(job, 40)
    folder.record(job.id, Record(State.DONE, 1, 30, 41, result={"rows": 1}))
    read = folder.job(job.id)
    assert read is not None
    assert (read.state, read.ended_us, read.active) == (State.CANCELLED, 40, False)
    assert folder.next() is None


def test_what_is_over_is_swept_when_its_time_is_over(folder: JobFolder) -> None:
    done, failed = submit(folder, at_us=10), submit(folder, at_us=11)
    waiting = submit(folder, "bob", 12)
    folder.record(done.id, Record(State.DONE, 1, 20, 100))
    folder.file(done.id, "data.parquet").write_bytes(b"PAR1")
    folder.record(failed.id, failed.failed(500, {"kind": "BadRequest"}))
    assert [job.id for job in folder.sweep(LIMITS, 1_099)] == [done.id, failed.id, waiting.id]
    assert folder.file(done.id, "data.parquet").exists()
    assert not folder.file(failed.id, "spine.csv").exists(), "nobody needs it any more"
    assert {job.id for job in folder.sweep(LIMITS, 1_100)} == {failed.id, waiting.id}
    assert folder.job(done.id) is None
    assert folder.file(waiting.id, "spine.csv").exists()


def test_what_killed_processes_left_is_swept(folder: JobFolder) -> None:
    job = submit(folder)
    for name in (".incoming-old", ".incoming-new", ".removed-old"):
        (folder.path / name).mkdir()
    old = time.time() - 4_000
    os.utime(folder.path / ".incoming-old", (old, old))
    folder.sweep(LIMITS, 20)
    names = {path.name for path in folder.path.iterdir() if path.is_dir()}
    assert names == {job.id, ".incoming-new"}


@pytest.mark.parametrize("name", ["request.json", "record.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": "another version"}'])
def test_one_that_cannot_be_read_is_in_the_way_of_none(
    folder: JobFolder, name: str, text: str
) -> None:
    damaged, good = submit(folder, at_us=1), submit(folder, at_us=2)
    folder.file(damaged.id, name).write_text(text)
    assert folder.job(damaged.id) is None
    assert folder.next() == good
    old = time.time() - 10
    os.utime(folder.path / damaged.id, (old, old))
    folder.sweep(LIMITS, 20)
    assert [path.name for path in folder.path.iterdir() if is_id(path.name)] == [good.id]


def test_one_process_has_the_work(folder: JobFolder) -> None:
    other = JobFolder(folder.path)
    with folder.working() as taken:
        assert taken
        assert other.is_worked()
        with other.working() as again:
            assert not again
    assert not other.is_worked()


@pytest.mark.parametrize(
    "text", ["", "..", "a" * 31, "A" * 32, "a" * 33, "a" * 31 + "/", ".locked"]
)
def test_no_other_text_is_an_id(text: str) -> None:
    assert not is_id(text)
    assert is_id("0123456789abcdef" * 2)


def test_threads_read_the_jobs_while_others_end(folder: JobFolder) -> None:
    limits = Limits(waiting=500, per_client=500, keep_us=1_000)
    jobs = []
    for n in range(60):
        with folder.incoming() as (job_id, _):
            jobs.append(folder.submit(JobRequest(job_id, f"c{n}", n, "s", "x"), limits))

    def ends() -> None:
        for job in jobs:
            folder.record(job.id, replace(job.begun(1), state=State.DONE, ended_us=2))

    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(lambda: [len(folder.jobs()) for _ in range(40)]) for _ in range(3)]
        pool.submit(ends).result()
        assert all(set(look.result()) == {60} for look in looks)


def test_one_client_cannot_fill_the_folder() -> None:
    kept = [
        Job(JobRequest(f"{n:032x}", "ann", n, "s", "x"), Record(State.FAILED, ended_us=1))
        for n in range(MOST_KEPT_PER_CLIENT)
    ]
    refuse(kept, "bob", LIMITS)
    with pytest.raises(OverShare, match="are kept"):
        refuse(kept, "ann", LIMITS)


def test_a_full_disk_is_no_reason_to_go_on(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit(folder)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("slicewise.stores.jobs.folder._write", full)
    folder.cancel(job, 20)
    assert folder.job(job.id) is None
