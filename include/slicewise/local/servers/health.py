"""A server is healthy when it answers its own protocol; an answer is a reason, or None if
healthy."""

from __future__ import annotations

import http.client
import json
import socket
import struct

from slicewise.local.servers.ports import HOST

TIMEOUT_S = 2.0


def redis(port: int, pid: int | None = None) -> str | None:
    """Does Redis or Valkey serve commands, and is it the process `pid` (if given)."""
    try:
        with socket.create_connection((HOST, port), TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(b"PING\r\nINFO server\r\n")
            reply = b""
            while b"process_id:" not in reply and not reply.startswith(b"-"):
                more = connection.recv(65_536)
                if not more:
                    return "closed the connection"
                reply += more
    except OSError as error:
        return str(error)
    if not reply.startswith(b"+PONG"):
        return reply.partition(b"\r\n")[0].decode("utf-8", "replace")
    process_id = reply.partition(b"process_id:")[2].partition(b"\r")[0]
    if pid is not None and process_id.isdigit() and int(process_id) != pid:
        return f"port {port} is served by process {process_id.decode()}"
    return None


def kafka(port: int, host: str = HOST) -> str | None:
    """Does the broker process requests (ApiVersions, version 0)."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((host, port), TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = b""
            while len(head) < 10:
                more = connection.recv(10 - len(head))
                if not more:
                    return "closed the connection"
                head += more
    except OSError as error:
        return str(error)
    _, correlation, code = struct.unpack(">iih", head)
    return None if (correlation, code) == (1, 0) else f"answered with error {code}"


def http_ok(port: int, path: str) -> str | None:
    """Does GET answer 200."""
    status, body = _get(port, path)
    return None if status == 200 else f"GET {path}: {status or body}"


def airflow(port: int) -> str | None:
    """Are Airflow's parts all healthy, by its own word."""
    path = "/api/v2/monitor/health"
    status, body = _get(port, path)
    if status != 200:
        return f"GET {path}: {status or body}"
    try:
        parts = json.loads(body)
    except ValueError:
        return f"GET {path}: no JSON"
    ill = [name for name, part in parts.items() if part and part.get("status") != "healthy"]
    return f"not healthy: {', '.join(sorted(ill))}" if ill else None


def _get(port: int, path: str) -> tuple[int, str]:
    # http.client heeds no proxy variables, which would lead away from this machine
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error) or type(error).__name__
    finally:
        connection.close()
