"""A local receiver of alerts, as the webhook that a team would have, and of lineage."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Takes posts; each is answered with `code` once `gate` is open, and kept where that is 200."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.gate = threading.Event()
        self.gate.set()
        self.answered = 0
        self.posts: list[dict[str, Any]] = []
        self.code = 200
        self.reply: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def events(self, key: str | None = None) -> list[str]:
        """Events of the posts about an incident, or of all."""
        return [post["event"] for post in self.posts if key in (None, post["key"])]


class _Hook(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.code == 200:
            self.server.posts.append(json.loads(body))
        self.server.gate.wait()
        self.server.answered += 1
        self.send_response(self.server.code)
        reply = json.dumps(self.server.reply).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that runs."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
