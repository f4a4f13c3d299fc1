"""A fault of one monitor is no fault of the others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import SettingsError
from slicewise.lifecycle.monitors.monitor import Monitor
from slicewise.local.monitors.looking import judged, load_monitors
from slicewise.settings import Settings

ANSWER = {"mode": "live", "t": "2026-11-30T08:00:00Z", "bounds": {}, "freshness": {}, "flags": []}


@contextmanager
def api(replies: dict[str, Any]) -> Iterator[Settings]:
    """An API that answers each feature by a value, or by a status and the kind of an error."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            [ref] = body["features"]
            given = replies[ref]
            status = 200
            made: dict[str, Any] = {**ANSWER, "results": [{"entity": {}, "values": {ref: given}}]}
            if isinstance(given, tuple):
                status, kind = given
                parts = {"where": None, "expected": None, "next_step": None}
                made = {"error": {"kind": kind, "what": f"no {ref}", **parts}}
            encoded = json.dumps(made).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, *_: object) -> None:
            """Writes no lines."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield replace(Settings.load({}), serving_url=f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_fault_is_of_its_monitor_and_absence_is_none() -> None:
    replies = {
        "a:good": 1,
        "a:bad": 9,
        "a:gone": (404, "UnknownName"),
        "a:old": (422, "BeyondRetention"),
        "a:broken": (500, "DataLoss"),
        "a:building": (503, "NotReady"),
        "a:busy": (503, "Overloaded"),
        "a:null": None,
    }
    monitors = tuple(Monitor(ref, ref, above=5) for ref in replies)
    with api(replies) as settings:
        looked = judged(settings, monitors)
        assert looked is not None
        faults = {one.monitor.name for one in looked if one.fault}
        assert faults == {"a:bad", "a:gone", "a:old", "a:broken"}
        assert {one.monitor.name: one.value for one in looked if one.value is not None} == {
            "a:good": 1,
            "a:bad": 9,
        }
        assert judged(settings, monitors[5:]) is None, "where the first is not answered"
        assert judged(settings, ()) == ()
    assert judged(settings, monitors) is None, "it is away"


def test_a_file_that_is_named_and_not_there_is_said(tmp_path: Path) -> None:
    settings = replace(
        Settings.load({"SLICEWISE_PROJECT": str(tmp_path)}), monitors=tmp_path / "monitors.toml"
    )
    assert load_monitors(settings) == ()
    with pytest.raises(SettingsError, match="no such file"):
        load_monitors(replace(settings, monitors=tmp_path / "others.toml"))
    settings.monitors.write_text("[monitors")
    with pytest.raises(SettingsError):
        load_monitors(settings)
    settings.monitors.write_text('[monitors.m]\nfeature = "a:x"\nabove = 1\n')
    assert [one.name for one in load_monitors(settings)] == ["m"]
