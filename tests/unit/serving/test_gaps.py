"""Lost events that are heard of are told with every answer that they touch, and who cannot hear
says so."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.gaps import AcceptedGap, to_json
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.catalog import Catalog
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.client import Client
from slicewise.serving.connection.connection import SyncConnection
from slicewise.serving.connection.steps import Flow
from slicewise.serving.http.app import App
from slicewise.stores.online.memory.store import open_memory
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from tests.support.stores.in_memory import TOPIC, deployment, read_as, world


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


def test_an_answer_whose_window_touches_lost_events_says_so() -> None:
    clock, server, _, service, connection = world(deployment())
    store, now = open_memory(server), clock.now_us()
    assert read_as(service, connection, "strict").flags == ()

    lost = AcceptedGap(
        "plays", TOPIC, 0, 3, 7, now - 15_000_000, now - 5_000_000, "ada", "a disk", now
    )
    store.run(PutStatus("holes:plays", to_json([lost])))
    assert service.catalog is not None
    connection.run(service.freshness.listen(service.catalog))
    answer = read_as(service, connection, "strict")
    assert (answer.flags, answer.incomplete) == (("incomplete",), ("v:n_10s",))
    assert answer.to_wire(text=True)["incomplete"] == ("v:n_10s",)
    # a process that begins now knows it with its first answer
    assert read_as(FeatureService(clock), connection, "strict").flags == ("incomplete",)
    # once the window has moved on, nothing is missing
    clock.advance(10_000_000)
    assert read_as(service, connection, "strict").flags == ()


def test_accepted_gaps_that_cannot_be_read_count_as_any_gap_of_their_source_alone() -> None:
    clock, server, _, service, connection = world(two_sources())
    store = open_memory(server)
    assert read_as(service, connection, "v").flags == ()
    # as another version may write them; what follows in the listener's order is heard all the same
    store.run(PutStatus("holes:plays", '[{"source": "plays", "severity": 1}]'))
    now = clock.now_us()
    lost = AcceptedGap(
        "stops", TOPIC, 0, 3, 7, now - 15_000_000, now - 5_000_000, "ada", "a disk", now
    )
    store.run(PutStatus("holes:stops", to_json([lost])))
    assert service.catalog is not None
    for process in (service, FeatureService(clock)):
        if process.catalog is not None:
            connection.run(process.freshness.listen(process.catalog))
        for _ in range(2):
            answer = read_as(process, connection, "v")
            assert (answer.flags, answer.incomplete) == (("incomplete",), ("v:n_10s",))
            assert read_as(process, connection, "w").flags == ("incomplete",)
        clock.advance(10_000_000)
        assert read_as(process, connection, "v").flags == ("incomplete",), (
            "whenever its windows lie"
        )
        assert read_as(process, connection, "w").flags == ()
        clock.advance(-10_000_000)
    store.run(PutStatus("holes:plays", "[]"))
    connection.run(service.freshness.listen(service.catalog))
    assert read_as(service, connection, "v").flags == ()
    assert not service.freshness.unreadable


def test_lag_and_heartbeat_are_those_of_a_status_that_can_be_read_and_else_not_said() -> None:
    _, server, _, service, connection = world(deployment())
    read_as(service, connection, "strict")
    assert service.catalog is not None
    status = json.dumps({"heartbeat_us": 7, "lag": {"0": 2, "1": 3}})
    for text, expected in ((status, (5, 7)), ("torn", (None, None)), ("[]", (None, None))):
        open_memory(server).run(PutStatus("stream:plays", text))
        connection.run(service.freshness.listen(service.catalog))
        freshness = service.freshness.all()["plays"]
        assert (freshness.lag_events, freshness.heartbeat_us) == expected


def test_a_source_that_is_no_longer_deployed_is_not_unreadable() -> None:
    _, server, _, service, connection = world(two_sources())
    store = open_memory(server)
    store.run(PutStatus("holes:stops", "torn"))
    assert read_as(service, connection, "w").flags == ("incomplete",)
    assert list(service.freshness.unreadable) == ["stops"]
    store.run(
        Deploy(
            deployment(),
            store.run(ReadMetadata()).deployment_version,
            {"plays": TOPIC},
            OffsetVector(),
        )
    )
    connection.run(service.load())
    assert not service.freshness.unreadable


def test_accepted_gaps_that_cannot_be_read_take_readiness_down_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, server, _, _, connection = world(deployment())
    store = open_memory(server)

    async def run(flow: Flow[object]) -> object:
        return connection.run(flow)

    async def scenario() -> None:
        monkeypatch.setattr("slicewise.serving.http.app.LISTEN_EVERY_S", 0.001)
        app = App("redis://127.0.0.1:1/0", clock)
        monkeypatch.setattr(app.connection, "run", run)

        def failures() -> float:
            return (
                app.metrics.registry.get_sample_value("slicewise_listening_failures_total") or 0.0
            )

        app._listener = asyncio.create_task(app._listen())
        try:
            await until(lambda: "plays" in app.service.freshness._by_source)
            assert (await app._ready()).status == 200
            assert failures() == 0
            store.run(PutStatus("holes:plays", "torn"))
            await until(lambda: failures() >= 2)
            ready = await app._ready()
            assert (
                ready.status,
                b"source plays: the accepted gaps cannot be read" in ready.body,
            ) == (503, True)
            store.run(PutStatus("holes:plays", "[]"))
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


class Broken(Exception):
    """Error that no part of slicewise raises."""


def test_a_client_gives_the_answer_that_it_has_whatever_befalls_its_listening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, server, _, service, connection = world(deployment())
    client = client_of(service, connection)
    assert client.get("strict", {"user": "ada"}).flags == ()
    open_memory(server).run(PutStatus("holes:plays", "torn"))
    client._listen_at = 0.0
    assert client.get("strict", {"user": "ada"}).values() == {"v:n_10s": 0}
    assert client.get("strict", {"user": "ada"}).flags == ("incomplete",)

    def listen(catalog: Catalog) -> Flow[None]:
        yield ReadStatus("stream:plays")
        raise Broken(catalog.digest)

    monkeypatch.setattr(client._service.freshness, "listen", listen)
    client._listen_at = 0.0
    assert client.get("strict", {"user": "ada"}).values() == {"v:n_10s": 0}
    assert client._listen_at > 0


@pytest.mark.parametrize("name", ["remembered", "declared"])
def test_a_store_that_did_not_answer_is_not_listened_to(name: str) -> None:
    _, _, gone, service, connection = world(deployment())
    client = client_of(service, connection)
    assert client.get(name, {"user": "ada"}).flags == ()
    gone.away = True
    connection.close()
    gone.opened = 0
    assert read_as(service, connection, name).flags != ()
    opened, gone.opened, client._listen_at = gone.opened, 0, 0.0
    assert client.get(name, {"user": "ada"}).flags != ()
    assert gone.opened == opened, "as often as the read itself asks for it"


def test_a_remembered_answer_tells_what_has_been_heard_of_lost_events_since() -> None:
    clock, server, gone, service, connection = world(deployment())
    assert read_as(service, connection, "remembered").flags == ()
    now = clock.now_us()
    lost = AcceptedGap(
        "plays", TOPIC, 0, 3, 7, now - 15_000_000, now - 5_000_000, "ada", "a disk", now
    )
    open_memory(server).run(PutStatus("holes:plays", to_json([lost])))
    assert service.catalog is not None
    connection.run(service.freshness.listen(service.catalog))
    gone.away = True
    connection.close()
    clock.advance(60_000_000)
    answer = read_as(service, connection, "remembered")
    assert (answer.flags, answer.incomplete) == (("incomplete", "stale"), ("v:n_10s",)), (
        "by the window it was read for"
    )


def test_a_listener_that_breaks_goes_on_and_takes_readiness_down_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("slicewise.serving.http.app.LISTEN_EVERY_S", 0.001)
        app = App("redis://127.0.0.1:1/0")
        failure: Exception | None = Broken("a defect")

        async def run(flow: object) -> object:
            flow.close()  # type: ignore[attr-defined]
            if failure is not None and asyncio.current_task() is app._listener:
                raise failure
            return {"ready": True, "reasons": []}

        def failures() -> float:
            return (
                app.metrics.registry.get_sample_value("slicewise_listening_failures_total") or 0.0
            )

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
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
