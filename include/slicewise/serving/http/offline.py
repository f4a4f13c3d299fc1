"""Instants that the store no longer keeps are answered from the archive, by a process beside this
one: the first who asks starts it, one question after another (docs/adr/0123). It also reads which
data sets were built of a name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from slicewise import log
from slicewise.errors import (
    BadRequest,
    DataLoss,
    Overloaded,
    OverShare,
    SlicewiseError,
    StoreUnavailable,
    UnknownName,
)
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.service import PastQuestion

PATIENCE_S = 30.0
"""Longest that a question takes, in which it waits for others and for the start of the process."""
WAITING = 8
"""Questions that wait for the one in work; more are refused."""
OF_A_CLIENT = 5
"""Questions of one client, in work and waiting."""
_LONGEST_LINE = 1 << 24
_WORKER = "slicewise.training.past"
_PAGES = "/registry"
"""Client that all pages are to the archive."""


class OfflineAnswers:
    """The archive's answers, of one process of the API."""

    def __init__(
        self,
        patience_s: float = PATIENCE_S,
        program: Sequence[str] = (sys.executable, "-m", _WORKER),
    ) -> None:
        """program: the reader's command."""
        self._patience_s, self._program = patience_s, program
        self._one_at_a_time = asyncio.Lock()
        self._clients: Counter[str] = Counter()
        """Questions of each client, in work and waiting."""
        self._worker: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Future[asyncio.subprocess.Process] | None = None
        self._ended: list[asyncio.subprocess.Process] = []
        """Processes that were told to end."""

    async def answer(self, question: PastQuestion, client: str = "") -> Answer:
        """The archive's answer: the values that the store would give, had it kept them.

        Raises BadRequest for an instant that is not archived, Overloaded (OverShare: this client
        alone), StoreUnavailable, DataLoss.
        """
        header, body = await self._in_turn(question.message(), client)
        if "error" in header:
            raise _refusal(header["error"])
        return question.answer(header, body)

    async def data_sets(self, digest: str, name: str) -> bytes:
        """Uses of a name by data sets, packed. digest: of the deployment that is served. Raises as
        `answer`."""
        question = {"digest": digest, "uses_of": name, "size": 0}
        header, body = await self._in_turn(json.dumps(question).encode() + b"\n", _PAGES)
        if "error" in header:
            raise _refusal(header["error"])
        return body

    def close(self) -> None:
        """Ends the process, if there is one."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self._ended.append(worker)
        if worker.stdin is not None:
            worker.stdin.close()
        if worker.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()

    async def end(self) -> None:
        """Ends the process, and waits until it is gone."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
            self._starting = None
        self.close()
        await self._reap()

    async def _in_turn(self, message: bytes, client: str) -> tuple[dict[str, Any], bytes]:
        if self._clients.total() > WAITING:
            raise self._full(Overloaded, f"{self._clients.total()} questions wait for the archive")
        if self._clients[client] >= OF_A_CLIENT:
            raise self._full(OverShare, f"{self._clients[client]} questions of this client wait")
        self._clients[client] += 1
        try:
            async with asyncio.timeout(self._patience_s) as patience, self._one_at_a_time:
                return await self._answered(message)
        except TimeoutError as error:
            assert patience.expired()
            raise StoreUnavailable(
                f"the archive did not answer within {self._patience_s:g} s, waiting included",
                where="offline",
                next_step="ask for fewer entities, or build a training set",
            ) from error
        finally:
            self._clients[client] -= 1

    def _full(self, kind: type[Overloaded], what: str) -> Overloaded:
        return kind(
            what,
            where="offline",
            retry_after_s=self._patience_s / 2,
            next_step="ask again, or build a training set of many instants at once",
        )

    async def _answered(self, message: bytes) -> tuple[dict[str, Any], bytes]:
        for again in (True, False):
            old = worker = self._worker
            try:
                worker = await self._running()
                return await self._exchanged(worker, message)
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                # one that had nothing to do for long may have ended as the question came
                if again and worker is old:
                    continue
                raise StoreUnavailable(
                    "the process that reads the archive has ended",
                    where="offline",
                    expected="the libraries of slicewise[training] beside the API, and its settings",
                    next_step="see the API's log; then ask again",
                ) from error
        raise AssertionError("unreachable")

    async def _exchanged(
        self, worker: asyncio.subprocess.Process, message: bytes
    ) -> tuple[dict[str, Any], bytes]:
        whole = False
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(message)
            await worker.stdin.drain()
            header = json.loads(await worker.stdout.readline())
            body = await worker.stdout.readexactly(header["size"])
            whole = True
            return header, body
        finally:
            if not whole:  # also where who asked is gone: the next must not get this answer
                self.close()

    async def _running(self) -> asyncio.subprocess.Process:
        """The process, started where there is none. A start goes on where who waits for it is out
        of time: the next question finds it."""
        if self._starting is None:
            worker = self._worker
            if worker is not None and worker.returncode is None:
                return worker
            self._starting = asyncio.ensure_future(self._start())
        try:
            return await asyncio.shield(self._starting)
        finally:
            if self._starting is not None and self._starting.done():
                self._starting = None

    async def _start(self) -> asyncio.subprocess.Process:
        self.close()
        await self._reap()
        self._worker = await asyncio.create_subprocess_exec(
            *self._program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
        )
        log.event("offline_started", pid=self._worker.pid)
        return self._worker

    async def _reap(self) -> None:
        while self._ended:
            await self._ended.pop().communicate()  # to the end of its pipes


def _refusal(wire: Mapping[str, Any]) -> SlicewiseError:
    """The reader's error. What is none of these may pass with the next question."""
    kinds = {kind.__name__: kind for kind in (BadRequest, UnknownName, DataLoss)}
    kind = kinds.get(wire["kind"], StoreUnavailable)
    parts = {name: wire[name] for name in ("where", "expected", "next_step")}
    return kind(wire["what"], **parts)
