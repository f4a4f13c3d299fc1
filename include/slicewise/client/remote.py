"""A requested training set as a handle: polled, awaited, written and ended, over either client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import httpx

from slicewise.client.retrying import NoReply, Outcome
from slicewise.client.rules import Rules
from slicewise.client.training_sets import (
    PATH,
    Submission,
    Target,
    TrainingSetState,
    late,
    parts_of,
    waits,
)
from slicewise.client.wire import decoded


class RemoteSets:
    """Calls for training sets over the connections of a client."""

    def __init__(
        self,
        rules: Rules,
        http: httpx.Client,
        repeat: Callable[[Callable[[float], httpx.Response]], Outcome],
        sleep: Callable[[float], object],
    ) -> None:
        """repeat: sends a request that may be sent again, with the client's retries."""
        self.rules, self._http, self._repeat, self.sleep = rules, http, repeat, sleep

    def call(self, method: str, path: str) -> Outcome:
        """Sends a read."""
        return self._repeat(lambda timeout_s: self._http.request(method, path, timeout=timeout_s))

    def all(self) -> Sequence[TrainingSetState]:
        """States of the client's own training sets."""
        return self.rules.states(self.call("GET", PATH))

    def of(self, training_set_id: str) -> RemoteTrainingSet:
        """The handle of a training set."""
        return RemoteTrainingSet(self, training_set_id)

    def submit(self, given: Submission) -> RemoteTrainingSet:
        """Sends a submission; gives the handle."""
        content, options = given.content, self.rules.submitting(given)

        def send(timeout_s: float) -> httpx.Response:
            sent = parts_of(content) if isinstance(content, Path) else content
            return self._http.request("POST", PATH, content=sent, timeout=timeout_s, **options)

        return self.of(self.rules.state(self._repeat(send)).id)

    def send(self, method: str, path: str) -> Outcome:
        """Sends a request once: it changes something."""
        try:
            response = self._http.request(method, path, timeout=self.rules.timeout_s)
            return self.rules.reply(response)
        except httpx.HTTPError as error:
            return NoReply(error)

    def fetch(self, address: str, write: Callable[[bytes], object]) -> None:
        """Gives the parts of a file to `write`, as they come."""
        try:
            with self._http.stream("GET", address, **self.rules.fetching()) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    decoded(self.rules.form, self.rules.reply(response), self.rules.url)
                for part in response.iter_bytes():
                    write(part)
        except httpx.HTTPError as error:
            decoded(self.rules.form, NoReply(error), self.rules.url)


class RemoteTrainingSet:
    """A training set that the API builds, by its id; who has the id may do all of this."""

    def __init__(self, sets: RemoteSets, training_set_id: str) -> None:
        self._sets, self.id = sets, training_set_id
        self._path = f"{PATH}/{quote(training_set_id, safe='')}"

    def state(self) -> TrainingSetState:
        """State of it now. Raises UnknownName where it was removed, or expired."""
        return self._sets.rules.state(self._sets.call("GET", self._path))

    def wait(self, timeout_s: float = math.inf) -> TrainingSetState:
        """Waits until it is done. Raises its error where it fails; NoResult where it is cancelled,
        or not over in time, and goes on."""
        sets = self._sets
        ends = sets.rules.monotonic() + timeout_s
        for wait_s in waits():
            state = self.state()
            if not state.active:
                return state.checked()
            if sets.rules.monotonic() + wait_s > ends:
                raise late(state, timeout_s)
            sets.sleep(wait_s)
        raise AssertionError("unreachable")

    def write_to(self, path: str | Path) -> TrainingSetState:
        """Writes it, and beside it its spine and its manifest, as `slicewise dataset build` does.

        Files take their names when they are whole, and the manifest comes last. Raises NoResult
        where it is not done, StoreUnavailable where not all of it came.
        """
        state = self.state().checked()
        target = Target(Path(path), state)
        for part, file in target.files():
            with target.incoming(part, file) as incoming:
                self._sets.fetch(f"{self._path}/{part}", incoming.write)
        return state

    def cancel(self) -> TrainingSetState:
        """Ends it where it waits or is built; removes it where it is over."""
        return self._sets.rules.state(self._sets.send("DELETE", self._path))


class AsyncRemoteSets:
    """Calls for training sets over the connections of an asynchronous client."""

    def __init__(
        self,
        rules: Rules,
        http: httpx.AsyncClient,
        repeat: Callable[[Callable[[float], Awaitable[httpx.Response]]], Awaitable[Outcome]],
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        """repeat: sends a request that may be sent again, with the client's retries."""
        self.rules, self._http, self._repeat, self.sleep = rules, http, repeat, sleep

    async def call(self, method: str, path: str) -> Outcome:
        """Sends a read."""
        return await self._repeat(
            lambda timeout_s: self._http.request(method, path, timeout=timeout_s)
        )

    async def all(self) -> Sequence[TrainingSetState]:
        """States of the client's own training sets."""
        return self.rules.states(await self.call("GET", PATH))

    def of(self, training_set_id: str) -> AsyncRemoteTrainingSet:
        """The handle of a training set."""
        return AsyncRemoteTrainingSet(self, training_set_id)

    async def submit(self, given: Submission) -> AsyncRemoteTrainingSet:
        """Sends a submission; gives the handle."""
        content, options = given.content, self.rules.submitting(given)

        def send(timeout_s: float) -> Awaitable[httpx.Response]:
            sent = _in_turn(parts_of(content)) if isinstance(content, Path) else content
            return self._http.request("POST", PATH, content=sent, timeout=timeout_s, **options)

        return self.of(self.rules.state(await self._repeat(send)).id)

    async def send(self, method: str, path: str) -> Outcome:
        """Sends a request once: it changes something."""
        try:
            response = await self._http.request(method, path, timeout=self.rules.timeout_s)
            return self.rules.reply(response)
        except httpx.HTTPError as error:
            return NoReply(error)

    async def fetch(self, address: str, write: Callable[[bytes], object]) -> None:
        """Gives the parts of a file to `write`, as they come."""
        try:
            async with self._http.stream("GET", address, **self.rules.fetching()) as response:
                if response.status_code != httpx.codes.OK:
                    await response.aread()
                    decoded(self.rules.form, self.rules.reply(response), self.rules.url)
                async for part in response.aiter_bytes():
                    await asyncio.to_thread(write, part)
        except httpx.HTTPError as error:
            decoded(self.rules.form, NoReply(error), self.rules.url)


class AsyncRemoteTrainingSet:
    """A training set as `RemoteTrainingSet`, for asyncio."""

    def __init__(self, sets: AsyncRemoteSets, training_set_id: str) -> None:
        self._sets, self.id = sets, training_set_id
        self._path = f"{PATH}/{quote(training_set_id, safe='')}"

    async def state(self) -> TrainingSetState:
        """State as of `RemoteTrainingSet.state`."""
        return self._sets.rules.state(await self._sets.call("GET", self._path))

    async def wait(self, timeout_s: float = math.inf) -> TrainingSetState:
        """Waits as `RemoteTrainingSet.wait`."""
        sets = self._sets
        ends = sets.rules.monotonic() + timeout_s
        for wait_s in waits():
            state = await self.state()
            if not state.active:
                return state.checked()
            if sets.rules.monotonic() + wait_s > ends:
                raise late(state, timeout_s)
            await sets.sleep(wait_s)
        raise AssertionError("unreachable")

    async def write_to(self, path: str | Path) -> TrainingSetState:
        """Writes it as `RemoteTrainingSet.write_to`."""
        state = (await self.state()).checked()
        target = Target(Path(path), state)
        for part, file in target.files():
            with target.incoming(part, file) as incoming:
                await self._sets.fetch(f"{self._path}/{part}", incoming.write)
        return state

    async def cancel(self) -> TrainingSetState:
        """Ends or removes it as `RemoteTrainingSet.cancel`."""
        return self._sets.rules.state(await self._sets.send("DELETE", self._path))


async def _in_turn(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Parts of a file, read off the loop."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part
