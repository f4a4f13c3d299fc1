"""What is answered at the edges is what was asked for: by definition, by token, by window, and by who listens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.cover import Cover
from slicewise.errors import BeyondRetention, NotReady, StoreUnavailable
from slicewise.features.definitions import Project
from slicewise.features.plan import Deployment, plan
from slicewise.holes import Hole, to_json
from slicewise.serving.answer import Answer, EntityAnswer
from slicewise.serving.app import App
from slicewise.serving.catalog import Catalog
from slicewise.serving.client import Client
from slicewise.serving.connection import SyncConnection
from slicewise.serving.fallback import LastKnown
from slicewise.serving.requests import Entity, checked
from slicewise.serving.service import FeatureService
from slicewise.serving.steps import Flow, Status
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
        self.server, self.away, self.opened = server, False, 0

    def open(self) -> Store:
        self.opened += 1
        if self.away:
            raise StoreUnavailable("away")
        return open_memory(self.server)


def deploy(server: MemoryServer, deployed: Deployment) -> None:
    store = open_memory(server)
    marks = store.initialise()
    topics = {source.topic: letter * 32 for source, letter in zip(deployed.sources, "ab", strict=False)}
    marks = store.deploy(deployed, marks.epoch, topics, Cover())
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


def two_sources() -> Deployment:
    """Views v over plays and w over stops, each with its own feature set."""
    views = []
    for name, topic in (("v", "plays"), ("w", "stops")):
        schema = {"user": "string", "t": "timestamp_us"}
        source = sw.KafkaSource(topic, schema=schema, timestamp="t", max_lateness="1h")
        features = [sw.Feature("n", sw.count(), windows=["10s"])]
        views.append(sw.FeatureView(name, source=source, entity=["user"], features=features))
    sets = [sw.FeatureSet(name, features=[f"{name}:n_10s"]) for name in ("v", "w")]
    return plan(Project.of("p", [*views, *sets]))


def test_holes_that_cannot_be_read_count_as_any_hole_of_their_source_alone() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, two_sources())
    store, connection = open_memory(server), SyncConnection(lambda: open_memory(server))
    service = FeatureService(clock)
    assert asked(service, connection, "v").flags == ()
    # as another version may write them; what follows in the listener's order is heard all the same
    store.put_status("holes:plays", '[{"source": "plays", "severity": 1}]')
    now = clock.now_us()
    lost = Hole("stops", TOPIC, 0, 3, 7, now - 15_000_000, now - 5_000_000, "ada", "a disk", now)
    store.put_status("holes:stops", to_json([lost]))
    assert service.catalog is not None
    for process in (service, FeatureService(clock)):
        if process.catalog is not None:
            connection.run(process.freshness.listen(process.catalog))
        for _ in range(2):
            answer = asked(process, connection, "v")
            assert (answer.flags, answer.incomplete) == (("incomplete",), ("v:n_10s",))
            assert asked(process, connection, "w").flags == ("incomplete",)
        clock.advance(10_000_000)
        assert asked(process, connection, "v").flags == ("incomplete",), "whenever its windows lie"
        assert asked(process, connection, "w").flags == ()
        clock.advance(-10_000_000)
    store.put_status("holes:plays", "[]")
    connection.run(service.freshness.listen(service.catalog))
    assert asked(service, connection, "v").flags == ()
    assert not service.freshness.unreadable


def test_a_source_that_is_no_longer_deployed_is_not_unreadable() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, two_sources())
    store, connection = open_memory(server), SyncConnection(lambda: open_memory(server))
    store.put_status("holes:stops", "torn")
    service = FeatureService(clock)
    assert asked(service, connection, "w").flags == ("incomplete",)
    assert list(service.freshness.unreadable) == ["stops"]
    store.deploy(deployment(), store.marks().epoch, {"plays": TOPIC}, Cover())
    connection.run(service.load())
    assert not service.freshness.unreadable


def test_holes_that_cannot_be_read_take_readiness_down_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    store, connection = open_memory(server), SyncConnection(lambda: open_memory(server))

    async def run(flow: Flow[object]) -> object:
        return connection.run(flow)

    async def scenario() -> None:
        monkeypatch.setattr("slicewise.serving.app.LISTEN_EVERY_S", 0.001)
        app = App("redis://127.0.0.1:1/0", clock)
        monkeypatch.setattr(app.connection, "run", run)

        def failures() -> float:
            return app.metrics.registry.get_sample_value("slicewise_listening_failures_total") or 0.0

        app._listener = asyncio.create_task(app._listen())
        try:
            await until(lambda: "plays" in app.service.freshness._known)
            assert (await app._ready()).status == 200
            assert failures() == 0
            store.put_status("holes:plays", "torn")
            await until(lambda: failures() >= 2)
            ready = await app._ready()
            assert (ready.status, b"source plays: the holes cannot be read" in ready.body) == (503, True)
            store.put_status("holes:plays", "[]")
            await until(lambda: app._deaf is None)
            assert (await app._ready()).status == 200
        finally:
            await app.close()

    asyncio.run(scenario())


def client_of(service: FeatureService, connection: SyncConnection) -> Client:
    """A client over this store, which is to listen after its next answer."""
    client = Client("redis://127.0.0.1:1/0", clock=service.clock)
    client._service, client._connection = service, connection
    return client


def test_a_client_gives_the_answer_that_it_has_whatever_befalls_its_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    client = client_of(FeatureService(clock), SyncConnection(lambda: open_memory(server)))
    assert client.get("strict", {"user": "ada"}).flags == ()
    open_memory(server).put_status("holes:plays", "torn")
    client._listen_at = 0.0
    assert client.get("strict", {"user": "ada"}).values() == {"v:n_10s": 0}
    assert client.get("strict", {"user": "ada"}).flags == ("incomplete",)

    def listen(catalog: Catalog) -> Flow[None]:
        yield Status("stream:plays")
        raise Broken(catalog.digest)

    monkeypatch.setattr(client._service.freshness, "listen", listen)
    client._listen_at = 0.0
    assert client.get("strict", {"user": "ada"}).values() == {"v:n_10s": 0}
    assert client._listen_at > 0


@pytest.mark.parametrize("name", ["remembered", "declared"])
def test_a_store_that_did_not_answer_is_not_listened_to(name: str) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    gone = Gone(server)
    service, connection = FeatureService(clock), SyncConnection(gone.open)
    client = client_of(service, connection)
    assert client.get(name, {"user": "ada"}).flags == ()
    gone.away = True
    connection.close()
    gone.opened = 0
    assert asked(service, connection, name).flags != ()
    asks, gone.opened, client._listen_at = gone.opened, 0, 0.0
    assert client.get(name, {"user": "ada"}).flags != ()
    assert gone.opened == asks, "as often as the read itself asks for it"


def test_a_remembered_answer_tells_what_has_been_heard_of_lost_events_since() -> None:
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployment())
    gone = Gone(server)
    service, connection = FeatureService(clock), SyncConnection(gone.open)
    assert asked(service, connection, "remembered").flags == ()
    now = clock.now_us()
    lost = Hole("plays", TOPIC, 0, 3, 7, now - 15_000_000, now - 5_000_000, "ada", "a disk", now)
    open_memory(server).put_status("holes:plays", to_json([lost]))
    assert service.catalog is not None
    connection.run(service.freshness.listen(service.catalog))
    gone.away = True
    connection.close()
    clock.advance(60_000_000)
    answer = asked(service, connection, "remembered")
    assert (answer.flags, answer.incomplete) == (("incomplete", "stale"), ("v:n_10s",)), "by the window it was read for"


def test_a_remembered_answer_has_the_flags_of_its_own_entities_and_of_all_of_them() -> None:
    store = open_memory(MemoryServer(ManualClock(0)))
    selection = Catalog.of(deployment(), store.initialise()).select((), "remembered")
    ada: Entity = {"user": "ada"}
    bob: Entity = {"user": "bob"}
    ref = "v:n_10s"

    def read(t_us: int, *results: EntityAnswer, lost: bool = False) -> Answer:
        flags = ("overflow",) if any(each.errors for each in results) else ()
        answer = Answer((ref,), "live", t_us, {ref: (t_us - 10, t_us)}, results, flags=flags)
        return replace(answer, flags=(*flags, "incomplete"), incomplete=(ref,)) if lost else answer

    def told(*entities: Entity) -> tuple[tuple[str, ...], tuple[str, ...]]:
        answer = memory.answer(checked(None, "remembered", list(entities)), selection, 500, lambda *_: ())
        assert answer is not None
        return answer.flags, answer.incomplete

    memory = LastKnown()
    too_large = EntityAnswer(bob, (None,), "t", {ref: "overflow"})
    memory.keep(read(100, EntityAnswer(ada, (1,), "t"), too_large), selection)
    assert told(ada) == (("stale",), ())
    assert told(bob) == (("overflow", "stale"), ())
    memory.keep(read(200, too_large, lost=True), selection)
    for entities in ((ada, bob), (bob, ada)):
        assert told(*entities) == (("overflow", "incomplete", "stale"), (ref,)), "the older one has none of them"


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
