"""Pages wait for a reading of the archive for a bounded time, and the reading goes on without
them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from slicewise.errors import DataLoss, StoreUnavailable
from slicewise.lifecycle.registry.uses import Uses, packed_uses
from slicewise.serving.data_sets import DataSetUses

NONE: Uses = {"view": ()}
LONG_S = 60.0


class Archive:
    """A reader that answers when it is let, and counts what it is asked for."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.working = self.most_at_once = 0
        self.error: DataLoss | None = None
        self.free = asyncio.Event()
        self.free.set()

    async def read(self, digest: str, name: str) -> bytes:
        self.requests.append((digest, name))
        self.working += 1
        self.most_at_once = max(self.most_at_once, self.working)
        try:
            await self.free.wait()
        finally:
            self.working -= 1
        if self.error is not None:
            raise self.error
        return packed_uses(NONE)


def run(case: Callable[[Archive], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        await case(Archive())

    asyncio.run(whole())


def test_a_reading_is_that_of_all_pages_of_its_name_for_a_while() -> None:
    async def case(archive: Archive) -> None:
        uses = DataSetUses(archive.read)
        assert await uses.of("a", "users") == NONE
        assert await uses.of("a", "users") == NONE
        await uses.of("a", "songs")
        await uses.of("b", "users")
        assert archive.requests == [("a", "users"), ("a", "songs"), ("b", "users")]
        briefly = DataSetUses(archive.read, kept_s=0.0)
        for _ in range(2):
            await briefly.of("a", "users")
        assert len(archive.requests) == 5

    run(case)


def test_a_page_that_waited_long_enough_says_so_and_a_later_one_has_what_came() -> None:
    async def case(archive: Archive) -> None:
        archive.free.clear()
        uses = DataSetUses(archive.read, wait_s=0.05)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="has not answered within"):
                await uses.of("a", "users")
        assert len(archive.requests) == 1, "the first reading goes on"
        archive.free.set()
        while archive.working:
            await asyncio.sleep(0.01)
        late = DataSetUses(archive.read, wait_s=LONG_S)
        assert await late.of("a", "users") == NONE
        async with asyncio.timeout(LONG_S):
            while True:
                try:
                    assert await uses.of("a", "users") == NONE
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.01)
        assert len(archive.requests) == 2

    run(case)


def test_an_error_is_given_to_every_page_and_is_not_asked_for_again_at_once() -> None:
    async def case(archive: Archive) -> None:
        archive.error = DataLoss("gone", where="ops.datasets", next_step="restore it")
        uses = DataSetUses(archive.read)
        for _ in range(2):
            with pytest.raises(DataLoss, match="gone"):
                await uses.of("a", "users")
        assert len(archive.requests) == 1

    run(case)


def test_names_are_read_one_at_a_time() -> None:
    async def case(archive: Archive) -> None:
        uses = DataSetUses(archive.read)
        names = [f"view {n}" for n in range(9)]
        assert await asyncio.gather(*(uses.of("a", name) for name in names)) == [NONE] * 9
        assert archive.most_at_once == 1

    run(case)


def test_a_page_that_is_left_and_an_end_leave_nothing_in_work() -> None:
    async def case(archive: Archive) -> None:
        archive.free.clear()
        uses = DataSetUses(archive.read, wait_s=LONG_S)
        page = asyncio.create_task(uses.of("a", "users"))
        while not archive.working:
            await asyncio.sleep(0.01)
        page.cancel()
        with pytest.raises(asyncio.CancelledError):
            await page
        assert archive.working == 1, "whoever loads the page again has it"
        await uses.end()
        assert archive.working == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(case)
