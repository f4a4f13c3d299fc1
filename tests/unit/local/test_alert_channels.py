"""A test alert goes to real receivers, by Airflow's own environment, and what came back is told
without secrets."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from slicewise import cli
from slicewise.lifecycle import incidents
from slicewise.lifecycle.health.alerts import VARIABLES, Alert, alert
from slicewise.lifecycle.incidents import Incidents, Step
from slicewise.local.servers import airflow as airflow_server
from slicewise.local.servers.inbox import Inbox
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings


class Mail(socketserver.StreamRequestHandler):
    """A mail server of the few words that a client without extensions says."""

    def handle(self) -> None:
        self._reply("220 here")
        body: list[str] | None = None
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if body is not None:
                if line != ".":
                    body.append(line)
                    continue
                self.server.mails.append("\n".join(body))  # type: ignore[attr-defined]
                body = None
                self._reply("250 taken")
            elif line.upper().startswith("DATA"):
                body = []
                self._reply("354 go on")
            elif line.upper().startswith("QUIT"):
                self._reply("221 bye")
                return
            else:
                self._reply("250 fine")

    def _reply(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class Hook(BaseHTTPRequestHandler):
    """Takes what is posted; a path that ends in /gone is answered with 410."""

    def do_POST(self) -> None:
        posted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append((self.path, posted))  # type: ignore[attr-defined]
        self.send_response(410 if self.path.endswith("/gone") else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def hook() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Hook)
    server.posted = []
    with serving(server):
        yield server


@pytest.fixture
def mail() -> Iterator[Any]:
    server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail)
    server.daemon_threads, server.mails = True, []
    with serving(server):
        yield server


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _ in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__CORE__UNIT_TEST_MODE", "False")


def test_without_a_channel_it_says_so_and_which_variables_configure_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["alerts", "test"]) == 1
    output = capsys.readouterr().out
    assert "no channel is configured" in output
    assert all(name in output for name, _ in VARIABLES)
    assert cli.main(["alerts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "configured": [],
        "not_configured": [name for name, _ in VARIABLES],
        "incidents": [],
    }
    assert cli.main(["alerts"]) == 0
    assert capsys.readouterr().out.startswith("no alert is open\n")


def test_open_incidents_are_listed_and_those_that_are_over_where_all_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inbox = Inbox(Settings.load())
    for dag in ("compact_slices", "sweep_expired"):
        inbox.change(partial(_met, alert(dag, "task", "r", "broken", tries=2)))
    inbox.change(
        lambda before, now_us: incidents.settled(
            before, lambda one: one.key == "sweep_expired.task", now_us
        )
    )
    assert cli.main(["alerts"]) == 0
    output = capsys.readouterr().out
    assert "warning   task_failed      compact_slices.task  since " in output
    assert "tried: 2 times, and each failed" in output
    assert "next: read the task's log" in output
    assert "sweep_expired" not in output
    assert cli.main(["alerts", "--all", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["incidents"]
    assert [(one["dag"], one["state"]) for one in listed] == [
        ("compact_slices", "open"),
        ("sweep_expired", "over"),
    ]


def test_the_embedded_airflow_gets_the_channels_and_connections_that_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_ALERT_SLACK_CONN", "chat")
    monkeypatch.setenv("AIRFLOW_CONN_CHAT", "given")
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", "elsewhere")
    settings, state = Settings.load(), StateFolder(tmp_path / "state")
    state.create()
    env = airflow_server.service(settings, state, 8080).environment(settings)
    assert (env["SLICEWISE_ALERT_SLACK_CONN"], env["AIRFLOW_CONN_CHAT"]) == ("chat", "given")
    assert env["AIRFLOW__CORE__DAGS_FOLDER"] == str(settings.home / "dags")


def _met(sent: Alert, before: Incidents, now_us: int) -> Step:
    return incidents.met(before, sent, now_us, 10)


@pytest.mark.timeout(300)
@pytest.mark.long  # a process of Airflow for each
def test_each_configured_channel_gets_a_test_alert(
    hook: Any, mail: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    web = f"http://127.0.0.1:{hook.server_port}"
    monkeypatch.setenv("SLICEWISE_ALERT_WEBHOOK", f"{web}/hidden-word")
    monkeypatch.setenv("SLICEWISE_ALERT_SLACK_CONN", "chat")
    monkeypatch.setenv(
        "AIRFLOW_CONN_CHAT",
        json.dumps({"conn_type": "slackwebhook", "host": web, "password": "T/B/X"}),
    )
    monkeypatch.setenv("SLICEWISE_ALERT_SMTP_TO", "a@example.org, b@example.org")
    extra = {"from_email": "slicewise@example.org", "disable_ssl": True, "disable_tls": True}
    smtp = {
        "conn_type": "smtp",
        "host": "127.0.0.1",
        "port": mail.server_address[1],
        "extra": extra,
    }
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(smtp))
    assert cli.main(["alerts", "test", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(channel["kind"], channel["delivered"]) for channel in report["channels"]] == [
        ("webhook", True),
        ("slack", True),
        ("smtp", True),
    ]
    assert report["channels"][0]["said"] == "200 OK"
    assert report["channels"][1]["said"] == "200 ok"
    section = f"{Settings.load().runbook_url}/docs/runbook.md#alerts-and-where-they-go"
    posted = dict(hook.posted)
    assert posted["/hidden-word"]["event"] == "alert_test"
    assert posted["/hidden-word"]["runbook"] == section
    assert posted["/T/B/X"]["text"] == report["text"]
    [letter] = mail.mails
    assert "To: a@example.org, b@example.org" in letter
    assert "Subject: slicewise alert_test" in letter
    assert section in report["text"]


@pytest.mark.timeout(300)
@pytest.mark.long
def test_what_is_not_delivered_is_told_with_its_reason_and_without_its_address(
    hook: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(
        "SLICEWISE_ALERT_WEBHOOK", f"http://127.0.0.1:{hook.server_port}/hidden-word/gone"
    )
    monkeypatch.setenv("SLICEWISE_ALERT_PAGERDUTY_CONN", "nowhere")
    monkeypatch.setenv(
        "AIRFLOW_CONN_SMTP_DEFAULT",
        json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": 1}),
    )
    monkeypatch.setenv("SLICEWISE_ALERT_SMTP_TO", "a@example.org")
    assert cli.main(["alerts", "test"]) == 1
    output = capsys.readouterr().out
    print(output)
    lines = {line.split()[0]: line for line in output.splitlines()}
    assert "FAILED" in lines["webhook"]
    assert "410 Gone" in lines["webhook"]
    assert "FAILED" in lines["smtp"]
    assert "refused" in lines["smtp"]
    assert "FAILED" in lines["pagerduty"]
    assert "nowhere" in lines["pagerduty"]
    assert "not set" in output
    assert "hidden-word" not in output
