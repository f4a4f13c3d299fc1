"""Answers without parsing a head again are, byte for byte, those of uvicorn's way; in order, and to
requests in any pieces."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from slicewise.windows.durations import MINUTE_US
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import Event, Served

USERS = [f"user{n}" for n in range(12)]
REFS = ["listening:plays_1h", "listening:mean_seconds_1h", "visits:plays_session_15m"]
HEAD = "POST /v1/features HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"


class Api(NamedTuple):
    """A serving process, and an instant that all events lie before."""

    address: tuple[str, int]
    url: str
    now_us: int


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, deployment()))
        now_us = time.time_ns() // 1_000
        served.apply(
            [
                Event(0, i, now_us - MINUTE_US, {"user_id": user, "country": "no", "seconds": 0.1 * i, "n": i})
                for i, user in enumerate(USERS[:-1])
            ]
        )  # fmt: skip
        url = stack.enter_context(serving(redis.url))
        parts = urlsplit(url)
        yield Api((str(parts.hostname), int(parts.port or 0)), url, now_us)


def request(body: Any, extra: str = "", head: str = HEAD) -> bytes:
    text = body if isinstance(body, str) else json.dumps(body)
    return f"{head}{extra}content-length: {len(text)}\r\n\r\n{text}".encode()


def chunked(body: Any, extra: str = "", head: str = HEAD) -> bytes:
    """The same request in a form that goes uvicorn's way."""
    text = body if isinstance(body, str) else json.dumps(body)
    chunks = f"{len(text):x}\r\n{text}\r\n0\r\n\r\n"
    return f"{head}{extra}transfer-encoding: chunked\r\n\r\n{chunks}".encode()


class Client:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._got = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> bytes:
        """The next response, whose length its head says; without the date."""
        while b"\r\n\r\n" not in self._got:
            self._more()
        end = self._got.index(b"\r\n\r\n") + 4
        length = int(self._got[:end].lower().partition(b"content-length: ")[2].split(b"\r")[0])
        while len(self._got) < end + length:
            self._more()
        whole, self._got = self._got[: end + length], self._got[end + length :]
        return re.sub(rb"date: [^\r]*\r\n", b"", whole, count=1)

    def _more(self) -> None:
        chunk = self.socket.recv(1 << 16)
        assert chunk, "the connection was closed"
        self._got += chunk

    def exchange(self, data: bytes) -> bytes:
        self.send(data)
        return self.reply()


def body(api: Api, user: str = "user1", **other: Any) -> dict[str, Any]:
    return {"features": REFS, "entities": [{"user_id": user}], "at": api.now_us, **other}


@pytest.mark.parametrize(
    ("extra", "other", "status"),
    [
        ("", {}, 200),
        ("accept: application/msgpack\r\n", {}, 200),
        ("accept: application/json\r\nconnection: keep-alive\r\n", {}, 200),
        ("accept: text/plain\r\n", {}, 406),
        ("connection: close\r\n", {}, 200),
        ("", {"features": ["listening:nothing"]}, 404),
        ("", {"at": 1}, 422),
        ("", {"entities": [{"user_id": user} for user in USERS]}, 200),
        ("", {"entities": [{"user_id": 7}]}, 400),
        ("", {"tokens": False}, 200),
        ("", {"min_token": "x"}, 400),
    ],
)
def test_the_answer_is_the_same_either_way(
    api: Api, extra: str, other: dict[str, Any], status: int
) -> None:
    content = body(api, **other)
    replies = []
    for _ in range(3):
        with Client(api.address) as client:
            replies.append(client.exchange(request(content, extra)))
            if "close" not in extra:
                replies += [client.exchange(request(content, extra)) for _ in range(3)]
                replies.append(client.exchange(chunked(content, extra)))
                replies.append(client.exchange(request(content, extra)))
    with Client(api.address) as client:
        expected = client.exchange(chunked(content, extra))
    assert expected.startswith(b"HTTP/1.1 %d " % status)
    assert set(replies) == {expected}


def test_what_is_no_request_is_refused_the_same_either_way(api: Api) -> None:
    with Client(api.address) as client:
        for text in ("{", "[]", "null", '{"features": []}'):
            replies = {client.exchange(request(text)) for _ in range(3)}
            assert replies == {client.exchange(chunked(text))}
            assert next(iter(replies)).startswith(b"HTTP/1.1 400 ")


def test_several_requests_in_one_piece_are_answered_in_order(api: Api) -> None:
    content = [request(body(api, user)) for user in USERS]
    with Client(api.address) as client:
        alone = [client.exchange(one) for one in content]
        for _ in range(3):
            client.send(b"".join(content))
            assert [client.reply() for _ in content] == alone
            health = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
            client.send(
                content[0] + health + content[1] + chunked(body(api, USERS[2])) + content[3]
            )
            replies = [client.reply() for _ in range(5)]
            assert [replies[0], *replies[2:]] == alone[:4]
            assert replies[1].endswith(b'{"status":"ok"}')


@pytest.mark.parametrize("size", [1, 7, 90, 120, 150])
def test_a_request_may_come_in_any_pieces(api: Api, size: int) -> None:
    content = request(body(api))
    with Client(api.address) as client:
        whole = client.exchange(content)
        for _ in range(2 if size == 1 else 4):
            for first in range(0, len(content), size):
                client.send(content[first : first + size])
                time.sleep(0.001)
            assert client.reply() == whole
        assert client.exchange(content) == whole
        end = content.index(b"\r\n\r\n") + 4
        for cut in (end - 1, end, end + 1, len(content) - 1):
            client.send(content[:cut])
            time.sleep(0.01)
            client.send(content[cut:] + content)
            assert [client.reply(), client.reply()] == [whole, whole]


def test_of_many_at_once_each_gets_its_own(api: Api) -> None:
    def reads(user: str) -> list[dict[str, Any]]:
        answers = []
        with Client(api.address) as client:
            for _ in range(60):
                content = {"features": REFS, "entities": [{"user_id": user}]}
                reply = client.exchange(request(content))
                answers.append(json.loads(reply.partition(b"\r\n\r\n")[2]))
        return answers

    with ThreadPoolExecutor(len(USERS)) as pool:
        all_answers = list(pool.map(reads, USERS))
    for user, answers in zip(USERS, all_answers, strict=True):
        with Client(api.address) as client:
            content = {"features": REFS, "entities": [{"user_id": user}]}
            expected = json.loads(client.exchange(chunked(content)).partition(b"\r\n\r\n")[2])
        assert [a["results"][0]["entity"] for a in answers] == [{"user_id": user}] * len(answers)
        for answer in answers:
            assert answer["results"][0]["values"] == expected["results"][0]["values"]
            assert answer["mode"] == "live"
            assert answer.keys() == expected.keys()
        own = [
            answer["results"][0]["token"]
            for answer in answers
            if answer["bounds"] == expected["bounds"]
        ]
        assert set(own) <= {expected["results"][0]["token"]}


def test_a_client_that_leaves_or_is_slow_holds_nothing(api: Api) -> None:
    content = request(body(api))
    end = content.index(b"\r\n\r\n") + 4
    with Client(api.address) as client:
        client.exchange(content)
    for cut in (end, end + 3, len(content)):
        with Client(api.address) as client:
            client.send(content[:cut])  # and leaves
    with Client(api.address) as client, Client(api.address) as resting:
        resting.exchange(content)
        resting.exchange(content)
        client.exchange(content)
        client.send(content[:end])
        begun = time.perf_counter()
        assert client.reply().startswith(b"HTTP/1.1 408 ")
        assert 4 < time.perf_counter() - begun < 15
        assert client.socket.recv(10) == b""
        assert resting.socket.recv(10) == b"", "a connection without requests is closed"
        assert time.perf_counter() - begun < 20


def test_what_is_refused_for_now_says_when_to_come_again_either_way(own_redis: RedisServer) -> None:
    with serving(own_redis.url) as url:
        parts = urlsplit(url)
        content = {"features": REFS, "entities": [{"user_id": "user1"}]}
        with Client((str(parts.hostname), int(parts.port or 0))) as client:
            replies = {client.exchange(request(content)) for _ in range(3)}
            expected = client.exchange(chunked(content))
    assert b"\r\nretry-after: " in expected
    assert replies == {expected}


def test_what_begins_no_request_keeps_no_connection(api: Api) -> None:
    content = request(body(api))
    with Client(api.address) as client:
        for _ in range(2):
            client.exchange(content)
        begun = time.perf_counter()
        client.send(b"\r\n")
        assert client.socket.recv(10) == b""
        assert time.perf_counter() - begun < 15


def listens(address: tuple[str, int]) -> bool:
    """Tells whether connections are taken."""
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("behind", [b"", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"])
def test_a_request_whose_body_is_on_its_way_is_answered_before_the_end(
    own_redis: RedisServer, behind: bytes
) -> None:
    content = request({"features": REFS, "entities": [{"user_id": "user1"}]})
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        api = stack.enter_context(ExitStack())
        parts = urlsplit(api.enter_context(serving(own_redis.url)))
        address = (str(parts.hostname), int(parts.port or 0))
        client = stack.enter_context(Client(address))
        for _ in range(2):
            client.exchange(content)
        client.send(content[:-3])
        time.sleep(0.2)
        stopped = pool.submit(api.close)
        deadline = time.monotonic() + 10
        while listens(address):
            assert time.monotonic() < deadline
        client.send(content[-3:] + behind)
        assert client.reply().startswith(b"HTTP/1.1 503 ")  # nothing is deployed
        if behind:
            assert client.reply().endswith(b'{"status":"ok"}')
        assert client.socket.recv(10) == b""
        stopped.result(20)
