"""Airflow is asked again after a server error where that is safe, and never twice for one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from slicewise.errors import BadRequest, ServerError, UnknownName
from slicewise.local.airflow import http as airflow_http
from slicewise.local.airflow.api import AirflowApi

Answer = tuple[int, dict[str, object]]
SILENT = 0
"""Instead of a status: no answer, until the test is over."""
CLOSED = 1
"""Instead of a status: the connection is closed, as one that rested."""


class Scripted(BaseHTTPRequestHandler):
    """Answers from a script per (method, path), the last answer for ever; writes down what it was
    asked."""

    script: dict[tuple[str, str], list[Answer]]
    requests: list[tuple[str, str, dict[str, object]]]
    released: Event

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        path = self.path.partition("?")[0]
        self.requests.append((self.command, path, body))
        answers = self.script.get((self.command, path), [(404, {"detail": "no such thing"})])
        status, result = answers.pop(0) if len(answers) > 1 else answers[0]
        if status == CLOSED:
            self.close_connection = True
            return
        if status == SILENT:
            self.released.wait(10.0)
            return
        raw = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def airflow() -> Iterator[Callable[..., AirflowApi]]:
    opened: list[tuple[ThreadingHTTPServer, AirflowApi]] = []

    released = Event()

    def make(script: dict[tuple[str, str], list[Answer]]) -> AirflowApi:
        token: dict[tuple[str, str], list[Answer]] = {
            ("GET", "/auth/token"): [(200, {"access_token": "t"})]
        }
        handler = type(
            "Handler", (Scripted,), {"script": token | script, "requests": [], "released": released}
        )
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        api = AirflowApi(f"http://127.0.0.1:{server.server_port}", sleep=lambda _: None)
        opened.append((server, api))
        api.requests = handler.requests  # type: ignore[attr-defined]
        return api

    yield make
    released.set()
    for server, api in opened:
        api.close()
        server.shutdown()
        server.server_close()


RUN: dict[str, object] = {"dag_id": "d", "dag_run_id": "r", "run_type": "manual", "state": "queued"}
RUNS = "/api/v2/dags/d/dagRuns"


def test_a_trigger_is_tried_again_under_the_same_name(airflow: Callable[..., AirflowApi]) -> None:
    api = airflow({("POST", RUNS): [(500, {"detail": "database is locked"}), (200, RUN)]})
    assert api.trigger("d").run_id == "r"
    names = [body["dag_run_id"] for method, path, body in api.requests if path == RUNS]  # type: ignore[attr-defined]
    assert len(names) == 2
    assert len(set(names)) == 1


def test_a_run_that_was_made_by_a_lost_answer_is_found(airflow: Callable[..., AirflowApi]) -> None:
    api = airflow({("POST", RUNS): [(500, {}), (409, {"detail": "exists"})]})
    with pytest.raises(UnknownName):  # it looks for the run by the name that it chose
        api.trigger("d")
    method, path, _ = api.requests[-1]  # type: ignore[attr-defined]
    assert (method, path.startswith(f"{RUNS}/manual__")) == ("GET", True)


def test_a_server_that_stays_unwell_is_an_error_with_a_next_step(
    airflow: Callable[..., AirflowApi],
) -> None:
    api = airflow({("GET", "/api/v2/dags/d"): [(500, {"detail": "broken"})]})
    with pytest.raises(ServerError, match="500 broken"):
        api.is_paused("d")


def test_who_gets_no_answer_in_time_asks_again(
    airflow: Callable[..., AirflowApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_http, "TIMEOUT_S", 1.0)
    api = airflow({("GET", "/api/v2/dags/d"): [(SILENT, {}), (200, {"is_paused": True})]})
    assert api.is_paused("d")


def test_who_finds_its_connection_closed_asks_again(airflow: Callable[..., AirflowApi]) -> None:
    api = airflow({("GET", "/api/v2/dags/d"): [(CLOSED, {}), (200, {"is_paused": True})]})
    assert api.is_paused("d")


def test_what_makes_something_is_not_asked_again_where_nobody_knows_whether_it_did(
    airflow: Callable[..., AirflowApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_http, "TIMEOUT_S", 1.0)
    keys = {"backfills": [{"partition_key": "2026-11-21T08:00:00"}]}
    script = {
        ("POST", "/api/v2/backfills/dry_run"): [(200, keys)],
        ("GET", RUNS): [(200, {"dag_runs": []})],
        ("POST", "/api/v2/backfills"): [(SILENT, {}), (200, {})],
    }
    api = airflow(script)
    hour = datetime(2026, 11, 21, 8, tzinfo=UTC)
    with pytest.raises(ServerError, match="no answer within 1 s"):
        api.backfill("d", hour, hour, timeout_s=20)


@pytest.mark.parametrize(
    ("after", "due"),
    [(None, False), ("2026-11-21T09:00:00Z", True), ("2026-11-21T09:00:01Z", False)],
)
def test_a_run_is_due_once_its_time_has_come(
    airflow: Callable[..., AirflowApi], after: str | None, due: bool
) -> None:
    api = airflow({("GET", "/api/v2/dags/d"): [(200, {"next_dagrun_run_after": after})]})
    assert api.is_due("d", int(datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp() * 1e6)) is due


def test_one_request_says_which_dags_are_paused(airflow: Callable[..., AirflowApi]) -> None:
    dags = [{"dag_id": "a", "is_paused": True}, {"dag_id": "b", "is_paused": False}]
    api = airflow({("GET", "/api/v2/dags"): [(200, {"dags": dags[:1]}), (200, {"dags": dags})]})
    assert api.wait_for_dags(["a", "b"]) == {"a": True, "b": False}


def test_what_is_asked_wrongly_is_not_asked_again(airflow: Callable[..., AirflowApi]) -> None:
    api = airflow({("PATCH", "/api/v2/dags/d"): [(422, {"detail": "wrong"})]})
    with pytest.raises(BadRequest, match="wrong"):
        api.pause("d")
    assert [method for method, _, _ in api.requests] == ["GET", "PATCH"]  # type: ignore[attr-defined]


def test_an_old_token_is_renewed_once(airflow: Callable[..., AirflowApi]) -> None:
    api = airflow({("GET", "/api/v2/dags/d"): [(401, {}), (200, {"is_paused": True})]})
    assert api.is_paused("d")
    assert [path for _, path, _ in api.requests].count("/auth/token") == 2  # type: ignore[attr-defined]


def test_a_run_that_is_never_over_ends_the_wait_with_its_state(
    airflow: Callable[..., AirflowApi],
) -> None:
    api = airflow({("POST", RUNS): [(200, RUN)], ("GET", f"{RUNS}/r"): [(200, RUN)]})
    with pytest.raises(ServerError, match="r=queued"):
        api.wait(api.trigger("d"), timeout_s=0.0)


def hour_run(name: str, kind: str, hour: int, state: str) -> dict[str, object]:
    return RUN | {
        "dag_run_id": name,
        "run_type": kind,
        "partition_key": f"2026-01-01T{hour:02}",
        "state": state,
    }


FROM, TO = datetime(2026, 1, 1, 3, tzinfo=UTC), datetime(2026, 1, 1, 4, tzinfo=UTC)
DRY = (200, {"backfills": [{"partition_key": "2026-01-01T03"}, {"partition_key": "2026-01-01T04"}]})


def test_a_backfill_waits_for_the_run_that_already_takes_one_of_its_partitions(
    airflow: Callable[..., AirflowApi],
) -> None:
    # right after the full hour the schedule makes the run of the newest hour, and Airflow no second
    # one
    def listed(*states: str) -> Answer:
        runs = [hour_run("b3", "backfill", 3, states[0]), hour_run("s4", "scheduled", 4, states[1])]
        return (200, {"dag_runs": [run for run in runs if run["state"] != "none"]})

    script = {
        ("POST", "/api/v2/backfills/dry_run"): [DRY],
        ("POST", "/api/v2/backfills"): [(200, {})],
        ("GET", RUNS): [
            (200, {"dag_runs": []}),
            listed("none", "running"),
            (200, {"dag_runs": [hour_run("b3", "backfill", 3, "queued")]}),
            listed("queued", "running"),
            listed("success", "running"),
            listed("success", "success"),
        ],
    }
    runs = airflow(script).backfill("d", FROM, TO, timeout_s=30)
    assert [(run.run_id, run.state) for run in runs] == [("b3", "success"), ("s4", "success")]


def test_a_backfill_that_airflows_database_refuses_beside_another_is_made_once_that_is_over(
    airflow: Callable[..., AirflowApi],
) -> None:
    own = [hour_run("b4", "backfill", 4, "success"), hour_run("b3", "backfill", 3, "success")]
    script = {
        ("POST", "/api/v2/backfills/dry_run"): [DRY],
        ("POST", "/api/v2/backfills"): [
            (500, {"detail": {"reason": "Database error"}}),
            (409, {"detail": "there is one that runs"}),
            (200, {}),
        ],
        ("GET", RUNS): [*[(200, {"dag_runs": []})] * 4, (200, {"dag_runs": own})],
    }
    runs = airflow(script).backfill("d", FROM, TO, timeout_s=30)
    assert [run.run_id for run in runs] == ["b3", "b4"]


def test_a_backfill_of_partitions_of_its_own_waits_for_no_other_run(
    airflow: Callable[..., AirflowApi],
) -> None:
    own = [hour_run("b4", "backfill", 4, "success"), hour_run("b3", "backfill", 3, "success")]
    strange = hour_run("s5", "scheduled", 5, "running")
    script = {
        ("POST", "/api/v2/backfills/dry_run"): [DRY],
        ("POST", "/api/v2/backfills"): [(200, {})],
        ("GET", RUNS): [
            (200, {"dag_runs": []}),
            (200, {"dag_runs": [strange]}),
            (200, {"dag_runs": own}),
            (200, {"dag_runs": [strange, *own]}),
        ],
    }
    runs = airflow(script).backfill("d", FROM, TO, timeout_s=30)
    assert [run.run_id for run in runs] == ["b3", "b4"]


def test_runs_are_listed_page_by_page(airflow: Callable[..., AirflowApi]) -> None:
    pages = [
        [hour_run(f"r{n}", "manual", 0, "success") for n in range(100 * p, 100 * p + size)]
        for p, size in enumerate((100, 30))
    ]
    api = airflow({("GET", RUNS): [(200, {"dag_runs": page}) for page in pages]})
    assert [run.run_id for run in api.runs("d", limit=500)] == [f"r{n}" for n in range(130)]


@pytest.mark.parametrize("status", [201, 409], ids=["requested", "requested already"])
def test_a_file_is_read_again_by_the_token_that_airflow_gives(
    status: int, airflow: Callable[..., AirflowApi]
) -> None:
    path = "/api/v2/parseDagFile/abc"
    api = airflow(
        {
            ("GET", "/api/v2/dags/d"): [(200, {"file_token": "abc"})],
            ("PUT", path): [(status, {"detail": "there is such a request"})],
        }
    )
    api.reparse("d")
    assert ("PUT", path, {}) in api.requests  # type: ignore[attr-defined]
