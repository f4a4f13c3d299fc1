"""Both clients against a server on a real socket: what is sent, when again, in which order, and
what is raised."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgpack
import pytest

import slicewise as sw
from slicewise import errors
from slicewise.client.answers import Answer
from slicewise.clock import ManualClock
from slicewise.serving.answering.requests import instant_text
from slicewise.windows.bounds import EARLIEST_US

Scripted = tuple[int, dict[str, str], bytes]


def packed(value: object) -> bytes:
    return bytes(msgpack.packb(value))


def answer(entities: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer as the API writes it: each entity's feature is its own number."""
    return {
        "mode": "live",
        "t": "2026-01-31T12:00:00Z",
        "results": [
            {"entity": entity, "values": {"v:n": entity["n"]}, "token": "t"} for entity in entities
        ],
        "bounds": {"v:n": ["2026-01-31T11:00:00Z", "2026-01-31T12:00:00Z"]},
        "freshness": {},
        "flags": [],
    }


def refusal(kind: str, **more: object) -> dict[str, Any]:
    return {
        "error": {
            "kind": kind,
            "what": "no",
            "where": "here",
            "expected": "yes",
            "next_step": "ask",
            **more,
        }
    }


class Server:
    """Answers as it is told, once each, and then what was asked for; keeps bodies, and counts
    connections."""

    def __init__(self) -> None:
        self.script: list[Scripted] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.before: Callable[[Any], object] = lambda _: None
        self.at_once = self.most_at_once = 0
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[Server]:
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                as_json = self.headers["content-type"] == "application/json"
                body = json.loads(raw) if as_json else msgpack.unpackb(raw)
                with lock:
                    outer.bodies.append(body)
                    outer.headers.append(
                        {name.lower(): value for name, value in self.headers.items()}
                    )
                    outer.at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer.at_once)
                    scripted = outer.script.pop(0) if outer.script else None
                outer.before(body)
                whole = answer(body["entities"])
                status, headers, reply = scripted or (
                    200,
                    {},
                    json.dumps(whole).encode() if as_json else packed(whole),
                )
                with lock:
                    outer.at_once -= 1
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(reply))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # a client that waits no longer
                    self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self.url = f"http://127.0.0.1:{server.server_address[1]}"
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server().running() as running:
        yield running


Get = Callable[..., Answer]


def blocking(url: str, waited: list[float], **options: Any) -> Answer:
    with sw.HttpClient(url, sleep=waited.append, random=lambda: 0.0, **options) as client:
        return client.get(["v:n"], {"n": 1})


def asynchronous(url: str, waited: list[float], **options: Any) -> Answer:
    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def get() -> Answer:
        async with sw.AsyncHttpClient(url, sleep=sleep, random=lambda: 0.0, **options) as client:
            return await client.get(["v:n"], {"n": 1})

    return asyncio.run(get())


both = pytest.mark.parametrize("get", [blocking, asynchronous])
OVERLOADED: Scripted = (503, {"retry-after": "2"}, packed(refusal("Overloaded", retry_after_s=2)))


@both
def test_a_call_is_sent_once_where_no_retries_are_asked_for(get: Get, server: Server) -> None:
    waited: list[float] = []
    server.script = [OVERLOADED]
    with pytest.raises(errors.Overloaded, match="no") as raised:
        get(server.url, waited)
    assert (raised.value.retry_after_s, raised.value.next_step, raised.value.where) == (
        2,
        "ask",
        "here",
    )
    assert (len(server.bodies), waited) == (1, [])


@both
def test_retries_wait_as_retry_after_says(get: Get, server: Server) -> None:
    over_share: Scripted = (
        429,
        {"retry-after": "Sat, 31 Jan 2026 12:00:07 GMT"},
        packed(refusal("OverShare")),
    )
    waited: list[float] = []
    server.script = [OVERLOADED, over_share]
    clock = ManualClock(1_769_860_804_000_000)  # 12:00:04
    got = get(server.url, waited, retry=sw.Retry(times=2), clock=clock, timeout_s=60)
    assert (got.values(), waited, len(server.bodies)) == ({"v:n": 1}, [2.0, 3.0], 3)


@both
def test_a_retry_that_would_come_too_late_is_none(get: Get, server: Server) -> None:
    waited: list[float] = []
    server.script = [OVERLOADED]
    with pytest.raises(errors.Overloaded):
        get(server.url, waited, retry=sw.Retry(times=2), timeout_s=1.5)
    assert (waited, len(server.bodies)) == ([], 1)


@both
def test_a_server_that_is_slow_or_not_there_is_unavailable(get: Get, server: Server) -> None:
    over = threading.Event()
    server.before = lambda _: over.wait(30)
    for url, timeout_s in ((server.url, 0.05), ("http://127.0.0.1:9", 5.0)):
        with pytest.raises(errors.StoreUnavailable, match="does not answer") as raised:
            get(url, [], timeout_s=timeout_s)
        assert raised.value.where == url
    over.set()


@both
@pytest.mark.parametrize(
    "body", [b"<html>Bad gateway</html>", b"", b"\x81", packed({"other": 1}), packed(7)]
)
def test_what_a_gateway_writes_is_no_answer(get: Get, server: Server, body: bytes) -> None:
    server.script = [(502, {"content-type": "text/html"}, body)]
    with pytest.raises(errors.StoreUnavailable, match="status 502"):
        get(server.url, [])


@both
@pytest.mark.parametrize(
    ("kind", "more", "attribute"),
    [
        ("BadRequest", {}, ("expected", "yes")),
        ("UnknownName", {}, ("next_step", "ask")),
        ("NotReady", {"progress": 0.25}, ("progress", 0.25)),
        ("Recovering", {"progress": 0.5}, ("progress", 0.5)),
        ("BeyondRetention", {"earliest_at_us": 7}, ("earliest_at_us", 7)),
        ("BehindToken", {}, ("retry_after_s", 1.0)),
        ("StoreUnavailable", {}, ("where", "here")),
    ],
)
def test_an_error_of_the_api_is_raised_as_its_type(
    get: Get, server: Server, kind: str, more: dict[str, object], attribute: tuple[str, object]
) -> None:
    server.script = [(503, {}, packed(refusal(kind, **more)))]
    with pytest.raises(errors.SlicewiseError) as raised:
        get(server.url, [])
    assert type(raised.value) is getattr(errors, kind)
    assert getattr(raised.value, attribute[0]) == attribute[1]


@pytest.mark.parametrize("kind", ["Defect", "KeyError", "annotations", "Path"])
def test_an_error_that_this_version_does_not_know_is_one_of_slicewise(
    server: Server, kind: str
) -> None:
    server.script = [(500, {}, packed(refusal(kind)))]
    with pytest.raises(errors.SlicewiseError) as raised:
        blocking(server.url, [])
    assert type(raised.value) is errors.SlicewiseError


@both
def test_the_form_is_that_of_the_setting(get: Get, server: Server) -> None:
    for form in ("json", "msgpack"):
        assert get(server.url, [], form=form, headers={"x-client": "one"}).values() == {"v:n": 1}
        sent = server.headers[-1]
        assert (sent["accept"], sent["content-type"], sent["x-client"]) == (
            f"application/{form}",
            f"application/{form}",
            "one",
        )


def test_connections_are_kept(server: Server) -> None:
    with sw.HttpClient(server.url) as client:
        for n in range(5):
            assert client.get(["v:n"], {"n": n}).values() == {"v:n": n}
    assert server.connections == 1


def test_batches_are_split_by_size_and_kept_in_order(server: Server) -> None:
    with sw.HttpClient(server.url) as client:
        answers = list(client.get_batches(["v:n"], ({"n": n} for n in range(150))))
        assert [len(reply.results) for reply in answers] == [64, 64, 22]
        assert [row["v:n"] for reply in answers for row in reply.rows()] == list(range(150))
        assert list(client.get_batches(["v:n"], [])) == []
        assert [len(batch.results) for batch in client.get_batches(["v:n"], {"n": 1}, size=3)] == [
            1
        ]
        with pytest.raises(errors.BadRequest, match="size is 0"):
            client.get_batches(["v:n"], [], size=0)


def test_asynchronous_batches_are_under_way_together_and_kept_in_order(server: Server) -> None:
    later = {n: threading.Event() for n in range(10)}

    def before(body: Any) -> None:
        n = body["entities"][0]["n"]
        if n % 2 == 0:  # the first of each pair ends after the second has come
            assert later[n + 1].wait(30)
        later[n].set()

    server.before = before

    async def rows() -> list[int]:
        async with sw.AsyncHttpClient(server.url, timeout_s=30) as client:
            batches = client.get_batches(["v:n"], ({"n": n} for n in range(10)), size=1, at_once=3)
            return [row["v:n"] async for batch in batches for row in batch.rows()]

    assert asyncio.run(rows()) == list(range(10))
    assert 2 <= server.most_at_once <= 3


def test_batches_that_are_left_leave_nothing_under_way(server: Server) -> None:
    async def first() -> set[asyncio.Task[Any]]:
        async with sw.AsyncHttpClient(server.url) as client:
            batches = client.get_batches(["v:n"], ({"n": n} for n in range(10)), size=1)
            async for batch in batches:
                assert batch.values() == {"v:n": 0}
                break
            await batches.aclose()
            return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(first()) == set()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"url": "redis://host"}, "url is 'redis://host'"),
        ({"url": 7}, "url is 7"),
        ({"url": "http://host", "form": "xml"}, "form is 'xml'"),
        ({"url": "http://host", "timeout_s": 0}, "timeout_s is 0"),
    ],
)
def test_a_client_that_cannot_be_is_refused(options: dict[str, Any], what: str) -> None:
    for kind in (sw.HttpClient, sw.AsyncHttpClient):
        with pytest.raises(errors.BadRequest, match=what):
            kind(**options)


def test_a_value_that_no_form_writes_is_refused(server: Server) -> None:
    with (
        sw.HttpClient(server.url) as packed_form,
        sw.HttpClient(server.url, form="json") as text_form,
    ):
        for client in (packed_form, text_form):
            with pytest.raises(errors.BadRequest, match="cannot be written"):
                client.get(["v:n"], {"n": object()})
        with pytest.raises(errors.BadRequest, match="cannot be written"):
            text_form.get(["v:n"], {"n": float("nan")})
    assert server.bodies == []


def test_a_call_with_a_wrong_argument_names_what_there_is() -> None:
    with pytest.raises(errors.WrongCall, match="no parameter 'timeout'"):
        sw.HttpClient("http://host", timeout=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("timeout_s", [0, -1, "5", math.inf, math.nan, True])
def test_a_timeout_is_a_number_of_seconds(timeout_s: Any) -> None:
    with pytest.raises(errors.BadRequest, match="timeout_s"):
        sw.HttpClient("http://127.0.0.1:1", timeout_s=timeout_s)


@pytest.mark.parametrize("part", ["times", "first_wait_s", "longest_wait_s", "share"])
@pytest.mark.parametrize("value", [-1, "1", math.inf, math.nan, None, True])
def test_a_retry_takes_numbers_of_at_least_zero(part: str, value: Any) -> None:
    with pytest.raises(errors.BadRequest, match="no such number"):
        sw.Retry(**{part: value})


@both
def test_a_lifetime_begins_with_the_first_instant_there_is(get: Get, server: Server) -> None:
    lived = answer([{"n": 1}])
    lived["bounds"] = {"v:n": [instant_text(EARLIEST_US), "2026-01-31T12:00:00Z"]}
    server.script = [(200, {}, packed(lived))]
    start_us, _ = get(server.url, []).bounds_of()["v:n"]
    assert start_us == EARLIEST_US
