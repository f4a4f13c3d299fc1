"""Uses of a name by data sets come from the process beside the API, and are kept for a while.

A page waits for them no longer than a few seconds: a reading goes on without it, and the next page
has what it gave (docs/adr/0127).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slicewise.errors import StoreUnavailable
from slicewise.lifecycle.registry.uses import Uses, unpacked_uses

WAIT_S = 3.0
"""Longest that pages wait for a reading, from its begin on."""
KEPT_S = 30.0
"""For so long a reading is that of every page of its name, whether it gave uses or an error."""
Read = Callable[[str, str], Awaitable[bytes]]
"""Reads packed uses: of a deployment's digest and a name."""


@dataclass(frozen=True)
class _Reading:
    """A reading that was begun, by the clock of the loop."""

    begun_s: float
    task: asyncio.Task[Uses]


class DataSetUses:
    """Uses of names by data sets, of one process of the API."""

    def __init__(self, read: Read, wait_s: float = WAIT_S, kept_s: float = KEPT_S) -> None:
        """read: raises SlicewiseError where the archive does not answer."""
        self._read, self._wait_s, self._kept_s = read, wait_s, kept_s
        self._one_at_a_time = asyncio.Lock()  # the others that ask the archive wait behind one
        self._readings: dict[tuple[str, str], _Reading] = {}

    async def of(self, digest: str, name: str) -> Uses:
        """The uses of a name. digest: of the deployment that it has a definition in.

        Raises StoreUnavailable where they are not there in time, and the error of the reading.
        """
        reading = self._current((digest, name))
        waited_s = asyncio.get_running_loop().time() - reading.begun_s
        await asyncio.wait([reading.task], timeout=max(0.0, self._wait_s - waited_s))
        if not reading.task.done():
            raise StoreUnavailable(
                f"the archive has not answered within {self._wait_s:g} s",
                where="data sets",
                expected="an answer of the process that reads it, which may just be starting",
                next_step="load the page again in some seconds",
            )
        return reading.task.result()

    async def end(self) -> None:
        """Ends the readings that are in work."""
        tasks = [reading.task for reading in self._readings.values()]
        self._readings = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _current(self, key: tuple[str, str]) -> _Reading:
        now_s = asyncio.get_running_loop().time()
        self._readings = {
            other: reading
            for other, reading in self._readings.items()
            if not reading.task.done() or now_s - reading.begun_s < self._kept_s
        }
        if key not in self._readings:
            task = asyncio.create_task(self._uses(*key))
            task.add_done_callback(_looked_at)
            self._readings[key] = _Reading(now_s, task)
        return self._readings[key]

    async def _uses(self, digest: str, name: str) -> Uses:
        async with self._one_at_a_time:
            packed = await self._read(digest, name)
        return await asyncio.to_thread(unpacked_uses, packed)


def _looked_at(task: asyncio.Task[Uses]) -> None:
    """Takes its error, which nobody may ask for any more."""
    if not task.cancelled():
        task.exception()
