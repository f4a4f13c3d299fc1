"""A training set is requested, polled, fetched and cancelled; who knows its id may do all of it.

Nothing here builds: the folder of jobs is read and written off the loop, and answers of features
wait for none of it (docs/adr/0125).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slicewise.client.instants import instant_text
from slicewise.clock import Clock
from slicewise.errors import (
    BadRequest,
    NoResult,
    Overloaded,
    StoreUnavailable,
    UnknownName,
)
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import AsyncConnection
from slicewise.serving.http import errors as http
from slicewise.serving.http.body import Receive, Send, parts, whole
from slicewise.serving.http.errors import Response, encoded
from slicewise.serving.http.failures import Failures
from slicewise.serving.http.negotiation import JSON_KINDS, Headers, check_accepted, media_types
from slicewise.serving.http.training_sets.process import JobProcess
from slicewise.serving.http.training_sets.requests import (
    Wanted,
    key_of,
    parse,
    parse_query,
    resolved,
    upload_of,
)
from slicewise.serving.http.training_sets.transfer import Download, receive_file
from slicewise.serving.metrics import Metrics
from slicewise.stores.jobs.folder import JobFolder, is_id
from slicewise.stores.jobs.job import (
    RETRY_AFTER_S,
    Job,
    JobRequest,
    Limits,
    State,
    in_order,
    refuse,
    same_key,
)

PATH = "/v1/training-sets"
UPLOADS_AT_ONCE = 4
"""Spines that come in together, in a process of the API."""
DOWNLOADS_AT_ONCE = 16
"""Files that go out together."""
_LARGER = (
    "send a larger spine as a body of its own: Parquet, Arrow or CSV, with options in the query"
)
FILES = {
    "data": "",
    "manifest": ".manifest.json",
    "spine": ".spine.parquet",
    "arrival": ".arrival.parquet",
}
"""Files of a set by the last part of their paths, and how their names end."""
TYPES = {
    ".json": b"application/json",
    ".parquet": b"application/vnd.apache.parquet",
    ".csv": b"text/csv; charset=utf-8",
}


@dataclass(frozen=True)
class Options:
    """Settings of training sets over HTTP. most_bytes: of a spine; namespaces: whose tables a
    client may name."""

    limits: Limits
    most_bytes: int
    namespaces: Sequence[str] = ()


class TrainingSets:
    """Requests for training sets of one process of the API."""

    def __init__(
        self,
        folder: JobFolder,
        options: Options,
        clock: Clock,
        service: FeatureService,
        connection: AsyncConnection,
        failures: Failures,
        metrics: Metrics,
    ) -> None:
        self._folder, self._options, self._clock = folder, options, clock
        self._service, self._connection, self._failures = service, connection, failures
        self._metrics = metrics
        self.process = JobProcess(folder, options.limits, clock, self._count)
        self._uploads = self._downloads = 0

    async def handle(
        self,
        scope: Any,
        receive: Receive,
        send: Send,
        client: str,
        respond: Callable[[Response], Any],
    ) -> None:
        """Answers a request below PATH. respond: sends a response that is whole."""
        _, packed, accept = media_types(scope["headers"])
        try:
            answer = await self._answer(scope, receive, client, packed=packed, accept=accept)
            if isinstance(answer, Download):
                head = scope["method"] == "HEAD"
                self._refuse_more(self._downloads, DOWNLOADS_AT_ONCE, "files go out")
                self._downloads += 1
                try:
                    await answer.send(scope["headers"], receive, send, head=head)
                finally:
                    self._downloads -= 1
                return
        except OSError as error:
            unwritten = StoreUnavailable(
                f"the folder of training sets cannot be used: {error.strerror}",
                where="training-sets",
                expected="a state folder with room in it",
                next_step="make room below SLICEWISE_STATE; then submit it again",
            )
            answer = self._failures.response(unwritten, msgpack=packed)
        except Exception as error:  # noqa: BLE001
            answer = self._failures.response(error, msgpack=packed)
        await respond(answer)

    async def _answer(
        self, scope: Any, receive: Receive, client: str, *, packed: bool, accept: bytes
    ) -> Response | Download:
        path, method = scope["path"], scope["method"]
        job_id, _, part = path.removeprefix(PATH).removeprefix("/").partition("/")
        if not job_id:
            if method == "POST":
                check_accepted(accept, JSON_KINDS)
                return await self._submit(scope, receive, client, packed=packed)
            if method in ("GET", "HEAD"):
                check_accepted(accept, JSON_KINDS)
                return await self._list(client, packed=packed)
            return http.method_refused(method, "GET, POST")
        if part not in ("", *FILES):
            pages = ", ".join(f"{PATH}/{{id}}/{name}" for name in FILES)
            raise UnknownName("no such page", expected=pages, next_step="see /openapi.json")
        if method == "DELETE" and not part:
            check_accepted(accept, JSON_KINDS)
            return await self._delete(job_id, packed=packed)
        if method not in ("GET", "HEAD"):
            return http.method_refused(method, "GET" if part else "GET, DELETE")
        job = await self._job(job_id)
        if part:
            return self._download(job, part, accept)
        check_accepted(accept, JSON_KINDS)
        jobs = await asyncio.to_thread(self._folder.jobs) if job.active else []
        return encoded(200, self._shown(job, jobs), msgpack=packed)

    # ------------------------------------------------------------ submission
    async def _submit(self, scope: Any, receive: Receive, client: str, *, packed: bool) -> Response:
        headers: Headers = scope["headers"]
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        upload = upload_of(kind)
        if upload is None:
            wanted = parse(
                await whole(headers, receive, _LARGER),
                msgpack=media_types(headers)[0],
                namespaces=self._options.namespaces,
            )
        else:
            wanted = parse_query(scope.get("query_string", b""), upload)
        refs: tuple[str, ...] | None = None
        if wanted.options.as_of_definition is None:
            catalog = await self._connection.run(self._service.load())
            refs = resolved(wanted.options, catalog.deployment)
        jobs, key = await asyncio.to_thread(self._folder.jobs), key_of(headers)
        if same_key(jobs, client, key) is None:
            refuse(jobs, client, self._options.limits)  # before all of a spine comes
        job = await self._kept(wanted, headers, receive, client, key, upload=upload is not None)
        self.process.wake()
        jobs = await asyncio.to_thread(self._folder.jobs)
        location = ((b"location", f"{PATH}/{job.id}".encode("ascii")),)
        planned = self._shown(job, jobs) | {"refs": refs}
        return encoded(202, planned, msgpack=packed, headers=location)

    async def _kept(
        self,
        wanted: Wanted,
        headers: Headers,
        receive: Receive,
        client: str,
        key: str | None,
        *,
        upload: bool,
    ) -> Job:
        """The job of a request, once its spine is there."""
        if upload:
            self._refuse_more(self._uploads, UPLOADS_AT_ONCE, "spines come in")
        self._uploads += upload
        try:
            with self._folder.incoming() as (job_id, folder):
                if upload:
                    body = parts(headers, receive, self._options.most_bytes, _FEWER)
                    if not await receive_file(body, folder / wanted.spine):
                        raise BadRequest(
                            "the body is empty",
                            where="body",
                            expected="the spine, in the form that Content-Type names",
                            next_step="send the file: curl --data-binary @spine.parquet",
                        )
                elif wanted.rows is not None:
                    await asyncio.to_thread((folder / wanted.spine).write_bytes, wanted.rows)
                options, digest = wanted.options, ""
                if key is not None and (upload or wanted.rows is not None):
                    digest = await asyncio.to_thread(_digest, folder / wanted.spine)
                request = JobRequest(
                    id=job_id,
                    client=client,
                    submitted_us=self._clock.now_us(),
                    features=options.features,
                    spine=wanted.spine,
                    knowledge=options.knowledge,
                    known_at=options.known_at,
                    as_of_definition=options.as_of_definition,
                    engine=options.engine,
                    archive=options.archive,
                    format=options.format,
                    key=key,
                    spine_digest=digest,
                )
                submit = self._folder.submit
                return await asyncio.to_thread(submit, request, self._options.limits)
        finally:
            self._uploads -= upload

    def _refuse_more(self, count: int, most: int, what: str) -> None:
        if count >= most:
            raise Overloaded(
                f"{count} {what} already",
                where="training-sets",
                expected=f"at most {most} at once",
                retry_after_s=RETRY_AFTER_S,
                next_step="send it again later",
            )

    # ------------------------------------------------------------ state
    async def _job(self, job_id: str) -> Job:
        job = await asyncio.to_thread(self._folder.job, job_id) if is_id(job_id) else None
        if job is None:
            raise UnknownName(
                "there is no such training set",
                where=PATH,
                expected="an id that a submission was answered with, of a set that is still kept",
                next_step=f"GET {PATH} lists your own",
            )
        return job

    async def _list(self, client: str, *, packed: bool) -> Response:
        jobs = await asyncio.to_thread(self._folder.jobs)
        own = [self._shown(job, jobs) for job in jobs if job.request.client == client]
        return encoded(200, {"training_sets": own}, msgpack=packed)

    async def _delete(self, job_id: str, *, packed: bool) -> Response:
        job = await self._job(job_id)
        if job.active:
            await asyncio.to_thread(self._folder.cancel, job, self._clock.now_us())
            job = await self._job(job_id)
            return encoded(200, self._shown(job, ()), msgpack=packed)
        await asyncio.to_thread(self._folder.remove, job_id)
        return encoded(200, self._shown(job, ()) | {"state": "removed"}, msgpack=packed)

    def _shown(self, job: Job, jobs: Sequence[Job]) -> dict[str, Any]:
        request, record, address = job.request, job.record, f"{PATH}/{job.id}"
        names = [name for name in FILES if job.state is State.DONE and self._has(job, name)]
        before = next(
            (i for i, one in enumerate(in_order(o for o in jobs if o.active)) if one.id == job.id),
            None,
        )
        return {
            "id": job.id,
            "address": address,
            "state": job.state.value,
            "progress": record.progress if job.state is State.RUNNING else None,
            "waits_for": before if job.state is State.WAITING else None,
            "features": request.features,
            "knowledge": request.knowledge,
            "known_at": request.known_at,
            "as_of_definition": request.as_of_definition,
            "engine": request.engine,
            "archive": request.archive,
            "format": request.format,
            "submitted": instant_text(request.submitted_us),
            "begun": _text(record.begun_us),
            "ended": _text(job.ended_us),
            "expires": _text(job.expires_us(self._options.limits)),
            "attempts": record.attempts,
            "result": dict(record.result) if job.state is State.DONE else None,
            "error": record.error if job.state is State.FAILED else None,
            "files": {name: f"{address}/{name}" for name in names},
        }

    def _has(self, job: Job, part: str) -> bool:
        if part == "arrival":
            return job.request.knowledge == part or job.request.known_at is not None
        return True

    # ------------------------------------------------------------ files
    def _download(self, job: Job, part: str, accept: bytes) -> Download:
        if job.state is not State.DONE:
            why = (job.record.error or {}).get("what") if job.state is State.FAILED else None
            raise NoResult(
                f"the training set is {job.state.value}" + (f": {why}" if why else ""),
                where=f"{PATH}/{job.id}",
                expected="one that is done",
                next_step="ask for its state until it is done"
                if job.active
                else "submit it again, with what its error says put right",
            )
        if not self._has(job, part):
            raise NoResult(
                "the training set knows nothing by arrival",
                where=f"{PATH}/{job.id}",
                expected="one with the knowledge arrival",
                next_step="leave this file out: nothing needs it",
            )
        name = job.request.data if part == "data" else f"data{FILES[part]}"
        kind = TYPES[name[name.rindex(".") :]]
        check_accepted(accept, (kind.partition(b";")[0], b"application/octet-stream"))
        own = f"{job.id}.{job.request.format}" if part == "data" else f"{job.id}{FILES[part]}"
        return Download(self._folder.file(job.id, name), kind, own, f"{job.id}-{part}")

    def _count(self, jobs: Counter[State]) -> None:
        for state in State:
            self._metrics.training_sets.labels(state.value).set(jobs[state])


_FEWER = "request it in several training sets"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text(at_us: int | None) -> str | None:
    return None if at_us is None else instant_text(at_us)
