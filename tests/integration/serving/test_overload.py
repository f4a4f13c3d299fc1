"""More than can be answered, a store that hangs, clients that dawdle: refused in time, and over
when the cause is."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from slicewise.client.http import HttpClient
from slicewise.errors import Overloaded, OverShare
from slicewise.serving.answering.requests import MAX_BODY_BYTES
from slicewise.serving.http import protocol
from tests.integration.serving.support import deployment, serving
from tests.integration.serving.test_store import BODY, play, post, value
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import Served

WAIT_S, TIMEOUT_S = 0.2, 1.0
BOUND_S = WAIT_S + TIMEOUT_S + 2.0
"""Seconds allowed beside both bounds for a machine of which others take their part."""
LIMITS = {
    "SLICEWISE_SERVING_AT_ONCE": "4",
    "SLICEWISE_SERVING_WAIT_MS": str(int(WAIT_S * 1e3)),
    "SLICEWISE_SERVING_TIMEOUT_MS": str(int(TIMEOUT_S * 1e3)),
    "SLICEWISE_SERVING_CLIENT_HEADER": "X-Client",
}
HEAVY = {
    "features": ["listening:plays_7d", "listening:seconds_7d", "visits:plays_session_15m"],
    "entities": [{"user_id": f"user{n}"} for n in range(200)],
}
"""Counts as all that may be in work at once."""
QUICK = httpx.Client(
    trust_env=False,
    timeout=60,
    limits=httpx.Limits(max_connections=100, max_keepalive_connections=0),
)
"""A connection for each request, as from so many clients; certificates are read once."""


@contextmanager
def stopped(redis: RedisServer) -> Iterator[None]:
    """The store hangs: it takes what is sent and answers nothing."""
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(redis.pid, signal.SIGCONT)


def timed(url: str, body: Any, client: str = "a") -> tuple[float, httpx.Response]:
    """Seconds to the answer, and the answer."""
    start = time.perf_counter()
    reply = QUICK.post(url + "/v1/features", json=body, headers={"x-client": client})
    return time.perf_counter() - start, reply


def metrics(url: str) -> dict[str, float]:
    """Metrics without buckets, by name with labels."""
    text = QUICK.get(url + "/metrics").text
    return {
        k: float(v)
        for k, _, v in (line.rpartition(" ") for line in text.splitlines() if line[:1] != "#")
    }


def test_a_store_that_hangs_is_answered_with_503_in_time_and_its_return_at_once(
    own_redis: RedisServer,
) -> None:
    with Served.on(own_redis.url, deployment()) as served:
        served.apply([play(0)])
    with serving(own_redis.url, settings=LIMITS) as url, ThreadPoolExecutor(40) as pool:
        assert value(post(url, BODY)) == 1
        assert value(post(url, {"feature_set": "remembered"})) == 1
        with stopped(own_redis):
            requests = [pool.submit(timed, url, BODY) for _ in range(32)]
            declared = [
                pool.submit(timed, url, {"feature_set": name})
                for name in ("remembered", "assumed") * 3
            ]
            time.sleep(WAIT_S / 2)
            start = time.perf_counter()
            assert QUICK.get(url + "/healthz").status_code == 200
            assert time.perf_counter() - start < 1.0
            results = [request.result() for request in requests]
            assert {reply.status_code for _, reply in results} == {503}
            assert all(int(reply.headers["retry-after"]) >= 1 for _, reply in results)
            kinds = [reply.json()["error"]["kind"] for _, reply in results]
            assert set(kinds) == {"StoreUnavailable", "Overloaded"}
            assert max(seconds for seconds, _ in results) < BOUND_S
            flags = {
                tuple(reply.json()["flags"])
                for seconds, reply in (future.result() for future in declared)
            }
            # what they declare, whether refused or not answered
            assert flags == {("stale",), ("default",)}
            ready = QUICK.get(url + "/readyz")
            assert (ready.status_code, ready.elapsed.total_seconds() < BOUND_S) == (503, True)
            assert metrics(url)['slicewise_shed_total{why="waited"}'] >= kinds.count("Overloaded")
        seconds, reply = timed(url, BODY)
        assert value(reply) == 1
        assert seconds < 1.0
        gauges = metrics(url)
        assert (
            gauges['slicewise_requests{in="work"}'],
            gauges['slicewise_requests{in="wait"}'],
        ) == (0, 0)


def test_of_more_than_can_be_answered_what_is_answered_comes_in_time_and_the_rest_is_refused(
    own_redis: RedisServer,
) -> None:
    with Served.on(own_redis.url, deployment()) as served:
        served.apply([play(n) for n in range(50)])
    with serving(own_redis.url, settings=LIMITS) as url, ThreadPoolExecutor(33) as pool:
        alone = min(timed(url, HEAVY)[0] for _ in range(3))
        health = []
        requests = [pool.submit(timed, url, HEAVY) for _ in range(160)]
        while not all(request.done() for request in requests):
            start = time.perf_counter()
            assert QUICK.get(url + "/healthz").status_code == 200
            health.append(time.perf_counter() - start)
            time.sleep(0.02)
        results = [request.result() for request in requests]
        counted = {
            status: sum(reply.status_code == status for _, reply in results)
            for status in (200, 503)
        }
        worst = max(seconds for seconds, _ in results)
        print(
            f"alone {alone:.3f} s; {counted}; worst {worst:.3f} s; health {max(health):.3f} s "
            f"of {len(health)}"
        )
        assert sum(counted.values()) == len(results)
        assert min(counted.values()) > 0
        assert worst < BOUND_S
        assert max(health) < 2.0
        assert metrics(url)['slicewise_shed_total{why="waited"}'] == counted[503]
        assert timed(url, HEAVY)[1].status_code == 200
        with HttpClient(url) as client:
            assert client.get(BODY["features"], {}).values() == {"everyone:plays_1h": 50}


def test_a_client_that_asks_for_more_than_its_share_is_refused_and_another_is_answered(
    own_redis: RedisServer,
) -> None:
    with Served.on(own_redis.url, deployment()) as served:
        served.apply([play(0)])
    narrow = {**LIMITS, "SLICEWISE_SERVING_WAITING": "8", "SLICEWISE_SERVING_WAIT_MS": "2000"}
    with serving(own_redis.url, settings=narrow) as url, ThreadPoolExecutor(24) as pool:
        greedy = [pool.submit(timed, url, HEAVY, "greedy") for _ in range(200)]
        modest = []
        while not all(future.done() for future in greedy):
            modest.append(timed(url, BODY, "modest")[1].status_code)
        refused = [
            reply for _, reply in (future.result() for future in greedy) if reply.status_code != 200
        ]
        print(
            f"modest: {len(modest)} of {set(modest)}; greedy refused {len(refused)} of "
            f"{len(greedy)}"
        )
        assert modest.count(200) >= 0.9 * len(modest) > 0
        assert 429 in {reply.status_code for reply in refused} <= {429, 503}
        assert {reply.json()["error"]["kind"] for reply in refused if reply.status_code == 429} == {
            "OverShare"
        }


def test_the_client_raises_what_it_was_told_and_does_not_ask_again(own_redis: RedisServer) -> None:
    with Served.on(own_redis.url, deployment()), serving(own_redis.url, settings=LIMITS) as url:
        assert value(post(url, BODY)) == 0
        with (
            stopped(own_redis),
            ThreadPoolExecutor(8) as pool,
            HttpClient(url, timeout_s=30) as client,
        ):
            holding = [pool.submit(timed, url, BODY) for _ in range(4)]
            while metrics(url)['slicewise_requests{in="work"}'] < 4:
                time.sleep(0.01)
            with pytest.raises(Overloaded, match="waited for 200 ms") as raised:
                client.get(BODY["features"], {})
            assert raised.value.retry_after_s >= 1
            assert not isinstance(raised.value, OverShare)
            for future in holding:
                future.result()
            waits = metrics(url)["slicewise_wait_seconds_count"]
        assert waits == 1


def test_clients_that_send_or_read_slowly_are_let_go(own_redis: RedisServer) -> None:
    with Served.on(own_redis.url, deployment()), serving(own_redis.url) as url:
        address = urlsplit(url)

        def sends(head: bytes) -> socket.socket:
            made = socket.socket()
            made.settimeout(60)
            # else the system reads for who does not
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            made.connect((str(address.hostname), int(address.port or 0)))
            made.sendall(head)
            return made

        refs = [
            f"{unit.view}:{f.column}"
            for unit in deployment().units
            if len(unit.entity) == 1
            for f in unit.features
        ]
        large = client_request(
            {"features": refs, "entities": [{"user_id": f"user{n}"} for n in range(1_000)]}
        )
        start = time.perf_counter()
        dawdlers = [
            sends(b""),
            sends(b"POST /v1/features HT"),
            sends(b"POST /v1/features HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"),
        ]
        answers = []
        for dawdler in dawdlers:
            with dawdler:
                answers.append(dawdler.recv(1 << 16)[:12])
        took = time.perf_counter() - start
        assert answers == [b"", b"HTTP/1.1 408", b"HTTP/1.1 408"]
        assert protocol.SEND_S - 1 < took < protocol.SEND_S + 10
        deaf = sends(large * 8)  # eight answers of two megabytes and more, of which none is read
        while metrics(url)["slicewise_values_total"] == 0:
            time.sleep(0.1)
        time.sleep(protocol.READ_S + 3)  # writing was paused soon after the first answer
        received = bytearray()
        with deaf, contextlib.suppress(ConnectionError):
            while chunk := deaf.recv(1 << 20):
                received += chunk
        print(f"{len(received)} bytes arrived")
        assert received.count(b"HTTP/1.1 200") < 8
        assert QUICK.get(url + "/healthz").status_code == 200


def client_request(body: Any) -> bytes:
    """A whole request."""
    made = httpx.Request("POST", "http://x/v1/features", json=body)
    head = f"POST /v1/features HTTP/1.1\r\nhost: x\r\ncontent-length: {len(made.content)}\r\n\r\n"
    return head.encode() + made.content


def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_is_read(
    own_redis: RedisServer,
) -> None:
    with serving(own_redis.url) as url:
        address = urlsplit(url)
        with socket.create_connection(
            (str(address.hostname), int(address.port or 0)), timeout=30
        ) as made:
            head = (
                "POST /v1/features HTTP/1.1\r\nhost: x\r\ncontent-length: "
                f"{MAX_BODY_BYTES + 1}\r\n\r\n"
            )
            made.sendall(head.encode())
            assert made.recv(1 << 16).startswith(b"HTTP/1.1 413")


def test_a_client_that_leaves_before_its_answers_is_no_error(
    own_redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Served.on(own_redis.url, deployment()) as served:
        served.apply([play(0)])
    with serving(own_redis.url) as url:
        address = urlsplit(url)
        request = client_request(BODY)
        for turn in range(40):
            with socket.create_connection(
                (str(address.hostname), int(address.port or 0)), timeout=30
            ) as made:
                # also those that are asked before the last was answered
                made.sendall(request * (1 + turn % 3))
                time.sleep(turn % 5 * 0.0003)
        assert value(post(url, BODY)) == 1
    assert "Exception" not in capsys.readouterr().out
