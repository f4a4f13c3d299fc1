"""A model answers logged requests beside the live one: for exactly its entities, to the same bits,
and never in the way of answers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import skops.io
import xxhash
from sklearn.linear_model import LogisticRegression

from slicewise.local.servers import services, supervisor
from slicewise.models.declared import load_models
from slicewise.models.scoring import scored
from tests.support.platform.stack import Stack, stack_of

DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
)
listening = sw.FeatureView(
    "listening",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("plays", sw.count(), windows=["10m", "1d"]),
        sw.Feature("seconds", sw.mean("seconds"), windows=["10m", "1d"]),
    ],
)
requests = sw.request_log()
predictions = sw.prediction_log()
by_set = sw.request_view(requests)
by_model = sw.prediction_view(predictions)
live = sw.FeatureSet("live", ["listening:plays_10m", "listening:seconds_10m"], log=requests)
wider = sw.FeatureSet(
    "wider",
    ["listening:plays_10m", "listening:plays_1d", "listening:seconds_1d"],
    defaults={"listening:seconds_1d": 0.5},
)
"""
USERS = [f"u{n}" for n in range(60)]
SHARE = 0.4
INPUTS = {
    "b": ["listening:plays_10m", "listening:seconds_10m"],
    "wide": ["listening:plays_10m", "listening:plays_1d", "listening:seconds_1d"],
}


def chosen(user: str, share: float = SHARE) -> bool:
    key = json.dumps({"user_id": user}, separators=(",", ":")).encode()
    return xxhash.xxh64_intdigest(key) < int(share * 2**64)


def models_of(running: Stack, url: str) -> None:
    folder = running.settings.project_dir
    chance = np.random.default_rng(5)
    for name, inputs in INPUTS.items():
        x = chance.normal(size=(200, len(inputs))) * 30
        made = LogisticRegression().fit(x, x[:, 0] + chance.normal(size=200) > 0)
        skops.io.dump(made, folder / f"{name}.skops")
    (folder / "models.toml").write_text(
        f"""
[models.b]
features = "live"
skops = "b.skops"
missing = -1
positive = "fraud"
shadow = {SHARE}

[models.wide]
features = "wider"
skops = "wide.skops"
missing = -1
shadow = 1
requests = "live"

[models.slow]
features = "live"
url = "{url}"
shadow = 1.0

[models.gone]
features = "live"
skops = "nobody_wrote.skops"
shadow = 1.0

[models.none]
features = "live"
skops = "b.skops"
"""
    )


@contextmanager
def endpoint(seconds: float) -> Iterator[str]:
    """An endpoint of a model that is this slow, and then refuses."""

    class Slow(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            time.sleep(seconds)
            self.send_response(500)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def produced(running: Stack) -> None:
    now_us = time.time_ns() // 1000
    records = []
    for n in range(400):
        event = {
            "user_id": USERS[n % 45],  # some users never come
            "seconds": None if n % 11 == 0 else n / 3,
            "played_at": now_us - (400 - n) * 1_000_000,
        }
        records.append((n % 2, json.dumps(event).encode(), now_us // 1000))
    running.produce("plays", records)
    running.wait_applied("plays")


class Answers:
    """Live answers and the predictions of model A, which its caller sends."""

    def __init__(self, running: Stack) -> None:
        self.running, self.given = running, dict[str, dict[str, Any]]()

    def request(self, first: int, number: int) -> None:
        sent = []
        for n in range(first, first + number):
            user, name = USERS[n % len(USERS)], f"r{n}"
            answer = self.running.request(
                feature_set="live", entities=[{"user_id": user}], request_id=name
            )
            assert not answer.get("flags"), answer
            self.given[name] = answer
            sent.append(
                {
                    "prediction_id": name,
                    "model": "a",
                    "score": 0.5,
                    "request_id": name,
                    "entity": {"user_id": user},
                }
            )
        url = f"{self.running.settings.serving_url}/v1/outcomes"
        taken = httpx.post(url, json={"predictions": sent}, timeout=30, trust_env=False)
        assert taken.json()["predictions"] == number

    def wanted(self, share: float) -> set[str]:
        """Requests of a share of the entities."""
        return {
            name
            for name, answer in self.given.items()
            if chosen(answer["results"][0]["entity"]["user_id"], share)
        }


def predictions(running: Stack, model: str) -> list[dict[str, Any]]:
    events = [json.loads(value) for *_, value in running.records("predictions")]
    return [event for event in events if event["model"] == model]


def answered(running: Stack, model: str, wanted: set[str]) -> str | None:
    lacking = wanted - {event["request_id"] for event in predictions(running, model)}
    return f"{len(lacking)} of {len(wanted)} lack a prediction of {model}" if lacking else None


def figures(running: Stack) -> dict[str, Any]:
    file = running.settings.state_dir / "shadow" / "heartbeat.json"
    models: dict[str, Any] = json.loads(file.read_text())["models"] if file.exists() else {}
    return models


@contextmanager
def shadow(running: Stack, bound_s: int = 600) -> Iterator[subprocess.Popen[bytes]]:
    """The command, as a person runs it."""
    argv = [str(running.settings.platform_python.parent / "slicewise"), "shadow"]
    env = {**os.environ, **running.given, "SLICEWISE_SHADOW_BEHIND_S": str(bound_s)}
    with (running.settings.state_dir / "shadow.txt").open("ab") as out:
        process = subprocess.Popen(argv, stderr=out, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


def test_a_model_answers_beside_the_live_one(tmp_path: Path) -> None:
    with endpoint(1.0) as url, stack_of(DEFINITIONS, tmp_path) as running:
        running.cli("apply")
        running.up("serving")
        running.start_stream()
        produced(running)
        models_of(running, url)
        answers = Answers(running)
        answers.request(0, 5)  # before it began: these are nobody's
        before = set(answers.given)

        with shadow(running) as process:
            running.wait(
                lambda: None if {"b", "wide"} <= figures(running).keys() else "not yet",
                "the models to begin",
                60,
            )
            time.sleep(2.0)
            answers.request(5, 200)
            running.wait(lambda: answered(running, "b", answers.wanted(SHARE) - before), "b", 60)
            # killed while it is at a batch, and live requests go on
            answers.request(205, 100)
            process.send_signal(signal.SIGKILL)
            process.wait(20)
            answers.request(305, 100)
        with shadow(running) as process:
            running.wait(lambda: answered(running, "b", answers.wanted(SHARE) - before), "b", 60)
            running.wait(lambda: answered(running, "wide", set(answers.given) - before), "wide", 90)
            exactly_its_entities(running, answers, before)
            equal_to_scoring_offline(running, answers)
            counted_once(running)
            assert "does not answer" in figures(running)["slow"]["error"]
            assert not figures(running)["b"]["error"], "another's failure"
            a_file_is_read_when_it_comes(running, answers)
            process.send_signal(signal.SIGTERM)
            assert process.wait(40) == 0
        with shadow(running, bound_s=2):
            the_slow_one_skips(running)
        started_by_the_platform(running)


def exactly_its_entities(running: Stack, answers: Answers, before: set[str]) -> None:
    assert {e["request_id"] for e in predictions(running, "b")} == answers.wanted(SHARE) - before
    assert 0 < len(answers.wanted(SHARE)) < len(answers.given)
    assert {e["request_id"] for e in predictions(running, "a")} == set(answers.given)
    assert not predictions(running, "none")


def equal_to_scoring_offline(running: Stack, answers: Answers) -> None:
    """Scores of the answers themselves, and of those that are answered again at their instants."""
    models = load_models(running.settings)
    for name in ("b", "wide"):
        events = predictions(running, name)
        rows = []
        for event in events:
            answer = answers.given[event["request_id"]]
            if name == "b":
                rows.append(answer["results"][0]["values"])
                continue
            past = running.request(
                features=INPUTS[name],
                entities=[event["entity"] and json.loads(event["entity"])],
                at=answer["t"],
            )
            values = past["results"][0]["values"]
            if values["listening:seconds_1d"] is None:
                values["listening:seconds_1d"] = 0.5
            rows.append(values)
        columns = {ref: pa.array([row[ref] for row in rows], pa.float64()) for ref in INPUTS[name]}
        offline = scored(models[name], pa.table(columns)).values
        assert [event["score"] for event in events] == offline.tolist()
        positive = {event["predicted"] for event in events if event["score"] >= 0.5}
        assert positive <= ({"fraud"} if name == "b" else {None})


def counted_once(running: Stack) -> None:
    """Predictions that were written twice are dropped by the source."""
    running.wait_applied("predictions")
    for name in ("a", "b"):
        ids = {event["event_id"] for event in predictions(running, name)}
        [result] = running.request(
            features=["predictions_by_model:predictions_1h"], entities=[{"model": name}]
        )["results"]
        assert result["values"]["predictions_by_model:predictions_1h"] == len(ids)
        requests = {event["request_id"] for event in predictions(running, name)}
        assert len(ids) == len(requests)


def the_slow_one_skips(running: Stack) -> None:
    """A model that is too far behind skips, and counts it; nothing of it is lost silently."""
    running.wait(
        lambda: (
            None
            if figures(running).get("slow", {}).get("skipped")
            else str(figures(running).get("slow"))
        ),
        "the slow model to skip",
        60,
    )
    assert not predictions(running, "slow")


def a_file_is_read_when_it_comes(running: Stack, answers: Answers) -> None:
    assert "cannot be read" in figures(running)["gone"]["error"]
    folder = running.settings.project_dir
    (folder / "nobody_wrote.skops").write_bytes((folder / "b.skops").read_bytes())
    first = len(answers.given)

    def answers_now() -> str | None:
        answers.request(len(answers.given), 5)
        time.sleep(0.5)
        new = {f"r{n}" for n in range(first, len(answers.given))}
        given = {event["request_id"] for event in predictions(running, "gone")}
        return None if new & given else str(figures(running)["gone"])

    running.wait(answers_now, "the model whose file came", 60)


def started_by_the_platform(running: Stack) -> None:
    """`slicewise up` starts it where a model has `shadow`, status shows it, and `down` ends it."""
    [row] = [row for row in supervisor.status(running.settings) if row.name == services.SHADOW]
    assert row.state == "down"
    running.up("shadow")
    running.wait(
        lambda: None if "b: " in running.cli("status", check=False).stdout else "not shown",
        "its figures",
        30,
    )
    [row] = [row for row in supervisor.status(running.settings) if row.name == services.SHADOW]
    assert row.state == "up"
    assert services.build(running.settings).services[services.SHADOW].always_on
    (running.settings.project_dir / "models.toml").unlink()
    assert not services.build(running.settings).services[services.SHADOW].always_on
    supervisor.down(running.settings, print, only=["shadow"])
    [row] = [row for row in supervisor.status(running.settings) if row.name == services.SHADOW]
    assert (row.state, row.detail) == ("idle", "no model has shadow")
