"""A driver's machine shows whether it runs and speaks; what is torn or foreign shows nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from slicewise.lifecycle.absence import Absence
from slicewise.lifecycle.lagging import Lag
from slicewise.lifecycle.restarts import Restarts
from slicewise.lifecycle.supervision import Supervised, fault_of
from slicewise.local.servers import control, drivers, health, process
from slicewise.local.servers.process import Birth
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    return folder


@pytest.fixture
def sleeper(state: StateFolder) -> Iterator[Birth]:
    """A process that stands for the micro-batch lane's driver."""
    env = {"PATH": os.defpath, process.STATE: str(state.path), process.SERVICE: "stream"}
    birth = process.spawn(["/bin/sh", "-c", "exec sleep 60"], env, state.path, state.log("stream"))
    process.write_pid_file(state.pid_file("stream"), birth)
    yield birth
    birth.signal(signal.SIGKILL)
    process.wait_gone([birth], 10)


def beat(state: StateFolder, text: str) -> None:
    file = drivers.heartbeat_file(state, "stream")
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def test_a_driver_that_was_stopped_or_never_started_shows_nothing(state: StateFolder) -> None:
    assert drivers.looks(state) == dict.fromkeys(("stream", "tail", "emit", "probes"))


def test_a_driver_shows_its_process_and_its_last_words(state: StateFolder, sleeper: Birth) -> None:
    beat(state, json.dumps({"sources": {"plays": {"heartbeat_us": 7, "records": 3}}}))
    look = drivers.look(state, "stream")
    assert look is not None
    assert look.running
    assert look.heartbeat_us is not None
    assert [(status.source, status.records) for status in look.statuses] == [("plays", 3)]
    sleeper.signal(signal.SIGKILL)
    assert process.wait_gone([sleeper], 10) == []
    gone = drivers.look(state, "stream")
    assert gone is not None
    assert not gone.running


@pytest.mark.parametrize("text", ['{"sources": {"plays": {"heartbeat_us": "x"}}}', '{"shown": 3}'])
@pytest.mark.usefixtures("sleeper")
def test_words_that_cannot_be_read_are_a_sign_of_life(text: str, state: StateFolder) -> None:
    beat(state, text)
    look = drivers.look(state, "stream")
    assert look is not None
    assert look.heartbeat_us is not None
    assert look.statuses == ()


def test_a_torn_file_of_faults_is_as_none(state: StateFolder) -> None:
    kept = {"tail": Supervised(Restarts((5,), 1, None), "its process is gone", 5)}
    assert drivers.kept(state) == {}
    drivers.keep(state, kept)
    assert drivers.kept(state) == kept
    (state.path / "supervised.json").write_text('{"tail": {"fault"')
    assert drivers.kept(state) == {}


def words(state: StateFolder, **given: str) -> list[tuple[str, str, bool]]:
    """Findings a minute after the first instant, of a platform whose broker answers."""
    settings = Settings.load({"SLICEWISE_STATE": str(state.path)} | given)
    return [
        (finding.part, finding.text, finding.now)
        for finding in drivers.findings(settings, 60_000_000)
    ]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "broker_away", lambda _: "")


@pytest.mark.usefixtures("broker", "sleeper")
def test_a_driver_that_was_lost_is_a_finding_until_a_day_later(state: StateFolder) -> None:
    assert words(state) == []
    began = Restarts((5_000_000,), 1, None)
    drivers.keep(state, {"stream": Supervised(began, "its process is gone", 5)})
    again = "restarted once in the last day, last at 00:00:05 UTC"
    assert words(state) == [("driver stream", f"its process is gone; {again}", True)]
    drivers.keep(state, {"stream": Supervised(began, "its process is gone", 5, 7_000_000)})
    assert words(state) == [("driver stream", again, False)]
    drivers.keep(state, {"stream": Supervised(began)})
    assert words(state) == [("driver stream", again, False)]


@pytest.mark.usefixtures("broker")
def test_what_is_kept_of_a_driver_that_was_stopped_since_is_no_finding(state: StateFolder) -> None:
    drivers.keep(state, {"stream": Supervised(Restarts((5,), 1, None), "its process is gone", 5)})
    assert words(state) == []


def test_a_broker_that_no_driver_waits_for_is_no_finding(state: StateFolder) -> None:
    assert words(state, SLICEWISE_KAFKA_BOOTSTRAP="127.0.0.1:1") == []


@pytest.mark.usefixtures("sleeper")
def test_a_broker_that_does_not_answer_now_is_a_finding(state: StateFolder) -> None:
    bootstrap = {"SLICEWISE_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    ((part, text, now),) = words(state, **bootstrap)
    assert (part, now) == ("broker", True)
    assert text.startswith("it does not answer: 127.0.0.1:1: ")
    drivers.keep_absence(state, Absence("the broker: before", 20_000_000, notified=True))
    ((_, text, _),) = words(state, **bootstrap)
    assert text.startswith("it does not answer, for 40 s: 127.0.0.1:1: ")


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ("kafka:9093", [("kafka", 9093)]),
        ("kafka", [("kafka", 9092)]),
        ("PLAINTEXT://kafka:1, [::1]:2", [("kafka", 1), ("::1", 2)]),
        ("kafka:port", []),
    ],
)
def test_a_brokers_address_is_read_as_the_client_reads_it(
    bootstrap: str, addresses: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    def refused(port: int, host: str) -> str:
        seen.append((host, port))
        return "refused"

    monkeypatch.setattr(health, "kafka", refused)
    away = drivers.broker_away(Settings.load({"SLICEWISE_KAFKA_BOOTSTRAP": bootstrap}))
    assert seen == addresses
    assert away.startswith("the broker: ")


@pytest.mark.usefixtures("broker", "sleeper")
def test_a_lane_that_falls_behind_is_a_finding_while_it_is_behind(state: StateFolder) -> None:
    drivers.keep_lags(state, {"plays": Lag(0, 6_500, 0, notified=True)})
    source = {"heartbeat_us": 1, "records": 10, "events_per_s": 100.0}
    beat(state, json.dumps({"sources": {"plays": source | {"lag": {"0": 7_000}}}}))
    text = "7,000 events behind, 70 s at its rate, and falling behind since 1 min"
    assert words(state) == [("source plays", text, True)]
    beat(state, json.dumps({"sources": {"plays": source | {"lag": {"0": 10}}}}))
    assert words(state) == []


def test_a_store_that_does_not_answer_is_away(state: StateFolder) -> None:
    settings = Settings.load(
        {"SLICEWISE_STATE": str(state.path), "SLICEWISE_REDIS_URL": "redis://127.0.0.1:1/0"}
    )
    assert drivers.server_away(settings).startswith("the store: ")


def test_a_service_that_stands_still_is_ended_at_once_and_counts_as_one_that_died(
    state: StateFolder, sleeper: Birth
) -> None:
    sleeper.signal(signal.SIGSTOP)
    service = Service("stream", ("sleep",), state.path, lambda _: None, "")
    assert control.kill(service, state)
    assert not sleeper.alive()
    assert state.pid_file("stream").exists()
    assert not control.kill(service, state)


def test_a_driver_that_is_being_stopped_is_no_driver_that_died(
    state: StateFolder, sleeper: Birth
) -> None:
    file = state.pid_file("stream")
    process.mark_stopping(file, process.this_process())
    assert process.read_pid_file(file) == sleeper
    assert drivers.look(state, "stream") is None


def test_a_driver_whose_stopper_was_ended_itself_is_looked_at_again(
    state: StateFolder, sleeper: Birth
) -> None:
    file = state.pid_file("stream")
    process.mark_stopping(file, Birth(sleeper.pid, "another birth"))
    look = drivers.look(state, "stream")
    assert look is not None
    assert look.running


def test_a_driver_that_another_container_stops_is_left_to_it(
    state: StateFolder, sleeper: Birth
) -> None:
    file = state.pid_file("stream")
    process.mark_stopping(file, Birth(sleeper.pid, "another birth"))
    named = json.loads(file.read_text())
    named["stopped_by"]["namespace"] = "another pid:[1]"
    file.write_text(json.dumps(named))
    assert drivers.look(state, "stream") is None


def test_a_stop_marks_its_service_before_it_ends(
    state: StateFolder, sleeper: Birth, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks: list[bool] = []
    honest = process.wait_gone

    def waited(processes: Iterable[Birth], timeout_s: float) -> list[Birth]:
        marks.append(process.is_stopping(state.pid_file("stream")))
        return honest(processes, timeout_s)

    monkeypatch.setattr(process, "wait_gone", waited)
    service = Service("stream", ("sleep",), state.path, lambda _: None, "")
    assert control.stop(service, state)
    assert marks
    assert all(marks)
    assert not sleeper.alive()
    assert not state.pid_file("stream").exists()


def test_a_driver_of_another_container_is_judged_by_its_signs_of_life_alone(
    state: StateFolder,
) -> None:
    file = state.pid_file("stream")
    process.write_pid_file(file, Birth(2**22 + 1, "another boot"))
    own = drivers.look(state, "stream")
    assert own is not None
    assert not own.elsewhere
    named = json.loads(file.read_text()) | {"namespace": "another pid:[1]"}
    file.write_text(json.dumps(named))
    beat(state, "{}")
    look = drivers.look(state, "stream")
    assert look is not None
    assert look.elsewhere
    now_us = look.heartbeat_us or 0
    assert fault_of(look, now_us) is None
    silent = fault_of(look, now_us + 11_000_000)
    assert silent is not None
    assert silent.kind == "silent"
