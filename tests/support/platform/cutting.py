"""A way to the store on which answers to scripts are lost, with the connection: they ran, and
nobody hears of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def cutting(port: int, loses: Callable[[], bool]) -> Iterator[int]:
    """Gives the port of a way to the store at `port`. loses: asked at the answer to each script of
    a pipeline, whether it is lost."""
    closing = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def pump(
        source: socket.socket, target: socket.socket, *, requests: bool, armed: list[bool]
    ) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if requests and b"EVALSHA" in data:
                    armed[0] = True
                if not requests and armed[0] and loses():
                    break  # the script ran: nobody hears of it
                target.sendall(data)
        for connection in (source, target):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while not closing.is_set():
            with suppress(OSError):
                here, _ = server.accept()
                there = socket.create_connection(("127.0.0.1", port))
                armed = [False]
                threading.Thread(
                    target=pump, args=(here, there), kwargs={"requests": True, "armed": armed}
                ).start()
                threading.Thread(
                    target=pump, args=(there, here), kwargs={"requests": False, "armed": armed}
                ).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        closing.set()
        with suppress(OSError):
            socket.create_connection(server.getsockname(), 1).close()
        thread.join()
        server.close()
