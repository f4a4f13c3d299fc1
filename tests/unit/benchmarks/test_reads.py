"""The load of reads asks again over another connection, and gives a server up that closes all."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks import serving
from benchmarks.serving import Taken, _one_connection, _together

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@contextmanager
def closing_server(answers: int) -> Iterator[int]:
    """A server that closes each connection after so many answers; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    for _ in range(answers):
                        if not connection.recv(65_536):
                            break
                        connection.sendall(ANSWER)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _load(port: int, connections: int, taken: Taken) -> None:
    until = time.perf_counter() + 0.2
    if connections == 1:
        _one_connection("127.0.0.1", port, [REQUEST], until, taken)
    else:
        asyncio.run(_together("127.0.0.1", port, [REQUEST], until, taken, connections))


@pytest.mark.parametrize("connections", [1, 2])
def test_a_request_whose_connection_was_closed_goes_over_another_and_is_counted(
    connections: int,
) -> None:
    taken = Taken()
    with closing_server(answers=3) as port:
        _load(port, connections, taken)
    assert len(taken.seconds) > 3
    # a connection ends after three answers, and the next request finds it closed
    assert taken.closed >= len(taken.seconds) // 3 - connections


@pytest.mark.parametrize("connections", [1, 2])
def test_a_server_that_closes_every_connection_is_given_up(
    connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_CLOSED", 3)
    with (
        closing_server(answers=0) as port,
        pytest.raises((ConnectionError, asyncio.IncompleteReadError)),
    ):
        _load(port, connections, Taken())
