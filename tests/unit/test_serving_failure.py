"""What is answered at the edges is what was asked for: by definition, by token, by window, and by who listens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.cover import Cover
from slicewise.errors import BeyondRetention, CodecError, NotReady, StoreUnavailable
from slicewise.features.definitions import Project
from slicewise.features.plan import Deployment, plan
from slicewise.holes import Hole, to_json
from slicewise.serving.answer import Answer
from slicewise.serving.app import App
from slicewise.serving.connection import SyncConnection
from slicewise.serving.requests import checked
from slicewise.serving.service import FeatureService
from slicewise.stores.memory import MemoryServer, open_memory
from slicewise.stores.store import Store

TOPIC = "a" * 32


def deployment(where: str | None = None) -> Deployment:
    source = sw.KafkaSource("plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h")
    features = [sw.Feature("n", sw.count(), windows=["10s"])]
    view = sw.FeatureView("v", source=source, entity=["user"], features=features, where=where)
    refs = ["v:n_10s"]
    sets = [
        sw.FeatureSet("declared", features=refs, defaults={"n_10s": -1}, on_failure="default"),
        sw.FeatureSet("remembered", features=refs, on_failure="stale", max_staleness="10m"),
        sw.FeatureSet("strict", features=refs),
    ]
    return plan(Project.of("p", [view, *sets]))


def asked(service: FeatureService, connection: SyncConnection, name: str, min_token: str | None = None) -> Answer:
    return connection.run(service.read(checked(None, name, [{"user": "ada"}], min_token=min_token)))


class Gone:
    """A store that may be taken away."""

    def __init__(self, server: MemoryServer) -> None:
        self.server, self.away = server, False

    def open(self) -> Store:
        if self.away:
            raise StoreUnavailable("away")
        return open_memory(self.server)


def deploy(server: MemoryServer, deployed: Deployment) -> None:
    store = open_memory(server)
    marks = store.initialise()
    marks = store.deploy(deployed, marks.epoch, {"plays": TOPIC}, Cover())
    for unit in deployed.units:
        name = unit.storage_fingerprint
        store.mark_ready(unit, marks.starts[name], {unit.view: [name]})


@pytest.mark.parametrize("initialised", [False, True])
def test_a_store_that_was_emptied_is_answered_for_as_the_feature_set_declares(initialised: bool) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    with_marks = open_memory(server)
    with_marks.initialise()
    with_marks.deploy(deployment(), 0, {"plays": TOPIC}, Cover())
    service, connection = FeatureService(clock), SyncConnection(lambda: open_memory(server))
    for name in ("declared", "remembered", "strict"):
        assert asked(service, connection, name).flags == ()

    server.flush()
    if initialised:
        clock.advance(1_000_000)
        open_memory(server).initialise()
    declared = asked(service, connection, "declared")
    assert (declared.flags, declared.results[0].values) == (("default",), (-1,))
    assert asked(service, connection, "remembered").flags == ("stale",)
    with pytest.raises((StoreUnavailable, NotReady)):
        asked(service, connection, "strict")


def test_a_remembered_answer_is_never_given_for_a_newer_definition() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    gone = Gone(server)
    service, connection = FeatureService(clock), SyncConnection(gone.open)
    assert asked(service, connection, "remembered").flags == ()
    gone.away = True
    connection.close()
    assert asked(service, connection, "remembered").flags == ("stale",)

    # the same name and columns, another `where`: seen by this process, not yet answered
    gone.away = False
    newer = deployment(where="user <> 'bot'")
    deploy(server, newer)
    connection.run(service.load())
    assert service.catalog is not None
    assert service.catalog.deployment.digest == newer.digest
    gone.away = True
    connection.close()
    with pytest.raises(StoreUnavailable):
        asked(service, connection, "remembered")


def test_who_asks_by_token_gets_neither_memory_nor_defaults() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    gone = Gone(server)
    service, connection = FeatureService(clock), SyncConnection(gone.open)
    token = asked(service, connection, "remembered").results[0].token
    assert asked(service, connection, "declared", token).flags == ()
    gone.away = True
    connection.close()
    for name in ("remembered", "declared"):
        assert asked(service, connection, name).flags != ()
        with pytest.raises(StoreUnavailable):
            asked(service, connection, name, token)


def test_a_live_window_beyond_what_is_kept_speaks_of_the_window_and_the_clocks() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    behind = ManualClock(clock.now_us() - 86_400_000_000)
    service, connection = FeatureService(behind), SyncConnection(lambda: open_memory(server))
    with pytest.raises(BeyondRetention) as refused:
        asked(service, connection, "strict")
    assert refused.value.where == "live window of v:n_10s"
    assert "the window of v:n_10s starts at 2023-11-13T" in refused.value.what
    assert "2023-11-14T22:13:20Z" in (refused.value.expected or "")
    assert "clocks" in (refused.value.next_step or "")


def test_an_answer_whose_window_touches_lost_events_says_so() -> None:
    now = 1_700_000_000_000_000
    clock = ManualClock(now)
    server = MemoryServer(clock)
    deploy(server, deployment())
    store, connection = open_memory(server), SyncConnection(lambda: open_memory(server))
    service = FeatureService(clock)
    assert asked(service, connection, "strict").flags == ()

    lost = Hole("plays", TOPIC, 0, 3, 7, now - 15_000_000, now - 5_000_000, "ada", "a disk", now)
    store.put_status("holes:plays", to_json([lost]))
    assert service.catalog is not None
    connection.run(service.freshness.listen(service.catalog))
    answer = asked(service, connection, "strict")
    assert (answer.flags, answer.incomplete) == (("incomplete",), ("v:n_10s",))
    assert answer.to_wire(text=True)["incomplete"] == ("v:n_10s",)
    # a process that begins now knows it with its first answer
    assert asked(FeatureService(clock), connection, "strict").flags == ("incomplete",)
    # once the window has moved on, nothing is missing
    clock.advance(10_000_000)
    assert asked(service, connection, "strict").flags == ()
    clock.advance(-10_000_000)
    store.put_status("holes:plays", "torn")
    with pytest.raises(CodecError):
        connection.run(service.freshness.listen(service.catalog))
    assert asked(service, connection, "strict").flags == ("incomplete",), "what cannot be read does not count as none"


class Broken(Exception):
    """What no part of slicewise raises."""


def test_a_listener_that_breaks_goes_on_and_takes_readiness_down_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("slicewise.serving.app.LISTEN_EVERY_S", 0.001)
        app = App("redis://127.0.0.1:1/0")
        failure: Exception | None = Broken("a defect")

        async def run(flow: object) -> object:
            flow.close()  # type: ignore[attr-defined]
            if failure is not None and asyncio.current_task() is app._listener:
                raise failure
            return {"ready": True, "reasons": []}

        def failures() -> float:
            return app.metrics.registry.get_sample_value("slicewise_listening_failures_total") or 0.0

        monkeypatch.setattr(app.connection, "run", run)
        app._listener = asyncio.create_task(app._listen())
        try:
            await until(lambda: failures() >= 3)
            ready = await app._ready()
            assert (ready.status, b"Broken" in ready.body) == (503, True)
            failure = None
            await until(lambda: app._deaf is None)
            assert (await app._ready()).status == 200
        finally:
            await app.close()

    asyncio.run(scenario())


def test_readiness_tells_of_a_listener_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        app = App("redis://127.0.0.1:1/0")

        async def run(flow: object) -> object:
            flow.close()  # type: ignore[attr-defined]
            return {"ready": True, "reasons": []}

        monkeypatch.setattr(app.connection, "run", run)
        app._listener = asyncio.create_task(asyncio.sleep(0))
        await app._listener
        ready = await app._ready()
        assert ready.status == 503
        assert b"the listener has ended" in ready.body

    asyncio.run(scenario())


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
