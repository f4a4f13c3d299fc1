"""Files go out in small parts, and not to a client that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import NoResult
from slicewise.serving.http.negotiation import Headers
from slicewise.serving.http.training_sets.transfer import READ_BYTES, SENT_BYTES, Download

CONTENT = bytes(range(256)) * 10_000
Message = MutableMapping[str, Any]


@pytest.fixture
def download(tmp_path: Path) -> Download:
    path = tmp_path / "data.parquet"
    path.write_bytes(CONTENT)
    return Download(path, b"application/vnd.apache.parquet", "set.parquet", "tag")


async def sent(
    download: Download, headers: Headers = (), *, head: bool = False, leaves_after: int = 1_000
) -> list[Message]:
    """Messages that the server was given by a client that leaves after so many."""
    messages: list[Message] = []
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)
        if len(messages) >= leaves_after:
            left.set()
        await asyncio.sleep(0)

    await download.send(headers, receive, send, head=head)
    return messages


def test_a_file_goes_out_whole_in_parts(download: Download) -> None:
    start, *parts = asyncio.run(sent(download))
    assert b"".join(part["body"] for part in parts) == CONTENT
    assert max(len(part["body"]) for part in parts) == SENT_BYTES
    assert [part.get("more_body", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    assert (b"content-length", b"%d" % len(CONTENT)) in start["headers"]


def test_a_range_begins_and_ends_within_it(download: Download) -> None:
    first, last = READ_BYTES - 3, 2 * READ_BYTES + 5
    start, *parts = asyncio.run(sent(download, [(b"range", b"bytes=%d-%d" % (first, last))]))
    assert start["status"] == 206
    assert b"".join(part["body"] for part in parts) == CONTENT[first : last + 1]


def test_a_head_has_no_body(download: Download) -> None:
    start, end = asyncio.run(sent(download, head=True))
    assert (start["status"], end["body"]) == (200, b"")


def test_nothing_is_read_for_a_client_that_left(download: Download) -> None:
    messages = asyncio.run(sent(download, leaves_after=3))
    assert len(messages) <= 1 + READ_BYTES // SENT_BYTES + 1
    assert messages[-1].get("more_body"), "it is not said to be whole"


def test_a_file_that_became_shorter_is_not_said_to_be_whole(
    download: Download,
) -> None:
    async def run() -> list[Message]:
        messages: list[Message] = []

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

        async def send(message: Message) -> None:
            messages.append(message)
            download.path.write_bytes(CONTENT[:100])

        await download.send((), receive, send, head=False)
        return messages

    messages = asyncio.run(run())
    assert sum(len(message.get("body", b"")) for message in messages) < len(CONTENT)
    assert messages[-1].get("more_body", True)


def test_a_file_that_was_removed_is_no_result(tmp_path: Path) -> None:
    missing = Download(tmp_path / "none", b"text/csv", "set.csv", "tag")
    with pytest.raises(NoResult):
        asyncio.run(sent(missing))
