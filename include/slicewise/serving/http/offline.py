"""Instants that the store no longer keeps are answered from the archive, by a process beside this
one: the first who asks starts it, one question after another (docs/adr/0123)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from slicewise import log
from slicewise.errors import (
    BadRequest,
    DataLoss,
    Overloaded,
    SlicewiseError,
    StoreUnavailable,
    UnknownName,
)
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.service import PastQuestion

PATIENCE_S = 30.0
"""Longest that a question takes, the first one's start of the process included."""
WAITING = 8
"""Questions that wait for the one in work; more are refused."""
_LONGEST_LINE = 1 << 24
_WORKER = "slicewise.training.past"


class OfflineAnswers:
    """The archive's answers, of one process of the API."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._one_at_a_time = asyncio.Lock()
        self._questions = 0
        self._worker: asyncio.subprocess.Process | None = None

    async def answer(self, question: PastQuestion) -> Answer:
        """The archive's answer: the values that the store would give, had it kept them.

        Raises BadRequest for an instant that is not archived, Overloaded, StoreUnavailable,
        DataLoss.
        """
        header, body = await self._in_turn(question.line())
        if "error" in header:
            raise _refusal(header["error"])
        return question.answer(header, body)

    def close(self) -> None:
        """Ends the process, if there is one."""
        worker, self._worker = self._worker, None
        if worker is not None and worker.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()

    async def _in_turn(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        if self._questions > WAITING:
            raise Overloaded(
                f"{self._questions} questions wait for the archive",
                where="offline",
                retry_after_s=self._patience_s / 2,
                next_step="ask again, or build a training set of many instants at once",
            )
        self._questions += 1
        try:
            async with self._one_at_a_time:
                return await self._answered(line)
        finally:
            self._questions -= 1

    async def _answered(self, line: bytes) -> tuple[dict[str, Any], bytes]:
        whole = False
        try:
            async with asyncio.timeout(self._patience_s):
                worker = await self._running()
                assert worker.stdin is not None
                assert worker.stdout is not None
                worker.stdin.write(line)
                await worker.stdin.drain()
                header = json.loads(await worker.stdout.readline())
                body = await worker.stdout.readexactly(header["size"])
                whole = True
                return header, body
        except TimeoutError as error:
            raise StoreUnavailable(
                f"the archive was not read within {self._patience_s:g} s",
                where="offline",
                next_step="ask for fewer entities, or build a training set",
            ) from error
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise StoreUnavailable(
                "the process that reads the archive has ended",
                where="offline",
                expected="the libraries of slicewise[training] beside the API, and its settings",
                next_step="see the API's log; then ask again",
            ) from error
        finally:
            if not whole:  # also where who asked is gone: the next must not get this answer
                self.close()

    async def _running(self) -> asyncio.subprocess.Process:
        """The process, started where there is none."""
        worker = self._worker
        if worker is None or worker.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            worker = self._worker = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _WORKER, stdin=pipe, stdout=pipe, limit=_LONGEST_LINE
            )
            log.event("offline_started", pid=worker.pid)
        return worker


def _refusal(wire: Mapping[str, Any]) -> SlicewiseError:
    """The reader's error. What is none of these may pass with the next question."""
    kinds = {kind.__name__: kind for kind in (BadRequest, UnknownName, DataLoss)}
    kind = kinds.get(wire["kind"], StoreUnavailable)
    parts = {name: wire[name] for name in ("where", "expected", "next_step")}
    return kind(wire["what"], **parts)
