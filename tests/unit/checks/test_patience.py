"""The check waits for a store that restarts, repeats no answered question, and gives up in time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgpack
import pytest

from slicewise.checks.online import MAX_ENTITIES, HttpReader
from slicewise.checks.patience import LIMIT_S, LONGEST_S, Patience
from slicewise.errors import DataLoss, StoreUnavailable, TopicGone
from slicewise.offsets.token import encode
from slicewise.offsets.vector import OffsetVector

TOKEN = encode("a" * 16, "b" * 16, OffsetVector({}), {}, "live", {})
AWAY = (503, {"error": {"kind": "StoreUnavailable", "what": "the online store does not answer"}})
RECOVERING = (503, {"error": {"kind": "Recovering", "what": "the store lost what it had applied"}})


class Waiting:
    """A clock that only waits move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def patience(self, limit_s: float = LIMIT_S) -> Patience:
        return Patience(limit_s, self.pause, lambda: self.now)


@contextmanager
def service(replies: list[tuple[int, object]]) -> Iterator[tuple[str, list[list[str]]]]:
    """A real server that gives these replies in turn, then answers; the cards that each request was
    about."""
    requests: list[list[str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = msgpack.unpackb(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append([entity["card"] for entity in body["entities"]])
            answer = {"results": [{"values": {"v:n": 1}, "token": TOKEN} for _ in body["entities"]]}
            status, reply = replies.pop(0) if replies else (200, answer)
            packed = msgpack.packb(reply)
            self.send_response(status)
            self.send_header("Content-Length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def cards(count: int) -> list[dict[str, str]]:
    return [{"card": str(number)} for number in range(count)]


def test_a_store_that_comes_back_is_asked_again_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Waiting()
    with service([AWAY, RECOVERING, AWAY]) as (url, requests), caplog.at_level(logging.WARNING):
        result = HttpReader(url, patience=clock.patience()).read(["v:n"], cards(2), None)
    assert [answer.values for answer in result] == [{"v:n": 1}] * 2
    assert requests == [["0", "1"]] * 4
    assert clock.waits == [1.0, 2.0, 4.0]
    assert caplog.text.count("check_waits") == 3
    assert "the store lost what it had applied" in caplog.text


def test_what_was_answered_is_not_asked_a_second_time() -> None:
    clock = Waiting()
    replies: list[tuple[int, object]] = []
    with service(replies) as (url, requests):
        reader = HttpReader(url, patience=clock.patience())
        first = reader.read(["v:n"], cards(1), None)
        replies.extend(
            [(200, {"results": [{"values": {"v:n": 7}, "token": TOKEN}] * MAX_ENTITIES}), AWAY]
        )
        both = reader.read(["v:n"], cards(MAX_ENTITIES + 1), None)
    assert [len(request) for request in requests] == [1, MAX_ENTITIES, 1, 1]
    assert [both[0].values, both[-1].values] == [{"v:n": 7}, first[0].values]


def test_a_store_that_stays_away_is_given_up_within_the_limit() -> None:
    clock = Waiting()
    patience = clock.patience()
    with pytest.raises(StoreUnavailable, match=r"does not answer.*\(asked again \d+ times\)"):
        HttpReader("http://127.0.0.1:1", patience=patience).read(["v:n"], cards(1), None)
    assert sum(clock.waits) == pytest.approx(LIMIT_S)
    assert max(clock.waits) == LONGEST_S
    before = list(clock.waits)
    with pytest.raises(StoreUnavailable):  # all of a run has one limit, not each question
        HttpReader("http://127.0.0.1:1", patience=patience).read(["v:n"], cards(1), None)
    assert clock.waits == before


def test_a_question_that_hangs_counts_as_waiting() -> None:
    clock = Waiting()

    def hangs() -> None:
        clock.now += 40.0
        raise StoreUnavailable("no answer within 40 s")

    with pytest.raises(StoreUnavailable, match="asked again 6 times"):
        clock.patience().through("answers", hangs)
    assert clock.now <= LIMIT_S + 40.0


@pytest.mark.parametrize("error", [TopicGone("no topic"), DataLoss("damaged")])
def test_what_no_waiting_mends_is_told_at_once(error: Exception) -> None:
    clock = Waiting()

    def fails() -> None:
        raise error

    with pytest.raises(type(error)):
        clock.patience().through("archive", fails)
    assert clock.waits == []
