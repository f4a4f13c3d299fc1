"""A schema registry as producers know it, over HTTP on a port of its own: ids, subjects,
references."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Registry:
    """Registered schemas, and how often each path was asked for."""

    url: str = ""
    schemas: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    subjects: dict[tuple[str, int], int] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    failing: int = 0
    """Number of next requests that are answered with 503."""

    def register(
        self,
        text: str,
        kind: str = "AVRO",
        *,
        subject: str | None = None,
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """The id of the schema, from 1; under a subject it is its version 1."""
        number = len(self.schemas) + 1
        body: dict[str, Any] = {"schema": text, "references": list(references)}
        self.schemas[number] = body if kind == "AVRO" else {**body, "schemaType": kind}
        if subject is not None:
            self.subjects[subject, 1] = number
        return number

    def answer(self, path: str) -> tuple[int, Mapping[str, Any]]:
        self.requests[path] += 1
        if self.failing:
            self.failing -= 1
            return 503, {"error_code": 50301}
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) in self.schemas:
            return 200, self.schemas[int(parts[2])]
        if parts[0] == "subjects" and (parts[1], int(parts[3])) in self.subjects:
            return 200, self.schemas[self.subjects[parts[1], int(parts[3])]]
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry that answers while the block runs."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path)
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def framed(schema: int, payload: bytes) -> bytes:
    """A payload behind the head of Confluent's wire format."""
    return b"\0" + schema.to_bytes(4, "big") + payload


# ---- Protobuf's wire format, as its specification has it


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> bytes:
    return varint(value << 1 ^ value >> 63)


def counted(number: int, payload: bytes) -> bytes:
    """A member of bytes: text, a message, or packed values."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def number(member: int, value: int) -> bytes:
    """A member that is a varint."""
    return varint(member << 3) + varint(value)
