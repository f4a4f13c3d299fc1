"""Over several nodes of a store each entity is answered under its own node's metadata, and whatever
befalls the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.errors import NotReady, Recovering, SettingsError, StoreUnavailable
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import ListUnit
from slicewise.offsets import token as tokens
from slicewise.offsets.gaps import AcceptedGap, from_json, to_json
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.serving.connection.nodes import SyncNodes
from slicewise.serving.leaderboards import read_leaderboard
from slicewise.stores.online import keys
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations import status as statuses
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.sharded.routing import node_name, node_of
from slicewise.stores.online.store import Store
from tests.support.stores.in_memory import Readers, deployment
from tests.support.stores.served import Event, batch

TOPIC = "a" * 32
P0, P1 = (TOPIC, 0), (TOPIC, 1)


class World:
    def __init__(self, deployed: Deployment, count: int = 2) -> None:
        self.clock = ManualClock(1_700_000_000_000_000)
        self.servers = [MemoryServer(self.clock, name=f"n{number}") for number in range(count)]
        self.deployed = deployed
        self.deploy()
        self.readers = Readers(self.servers)
        self.service, self.connection = (
            FeatureService(self.clock),
            SyncConnection(lambda: self.readers),
        )

    def connect(self) -> Store:
        return open_memory(*self.servers)

    def deploy(self) -> None:
        store = self.connect()
        metadata = store.run(Initialise())
        store.run(
            Deploy(
                self.deployed,
                metadata.deployment_version,
                {"plays": TOPIC},
                OffsetVector({P0: 1, P1: 1}),
            )
        )
        metadata = store.run(ReadMetadata())
        for unit in self.deployed.units:
            store.run(
                MarkReady(
                    unit,
                    metadata.starts[unit.storage_fingerprint],
                    {unit.view: [unit.storage_fingerprint]},
                )
            )

    def read(self, *entities: Mapping[str, str], name: str = "strict") -> Answer:
        return self.connection.run(
            self.service.read(checked(None, name, [dict(entity) for entity in entities]))
        )

    def advance(self, number: int, offset: int) -> None:
        """The committed offsets of one node alone."""
        node = self.servers[number].connect()
        store = Store(node, node_name(number, len(self.servers)))
        metadata = store.run(ReadMetadata())
        store.run(
            AdvanceCommitted(
                metadata.committed,
                OffsetVector({P0: offset, P1: offset}),
                metadata.deployment_version,
                metadata.units,
            )
        )


def user_of(number: int, count: int = 2) -> dict[str, str]:
    """One whose keys are on this node."""
    names = (f"user{i}" for i in range(100))
    return next(
        {"user": n}
        for n in names
        if node_of(keys.entity_tags([("user", "string")], [[n]])[0], count) == number
    )


def base_of(answer: Answer, entity: int = 0) -> OffsetVector:
    return tokens.decode_all(answer.results[entity].token)[0].base


def test_a_token_has_the_committed_offsets_of_its_entitys_node() -> None:
    world = World(deployment())
    world.advance(0, 10)
    world.advance(1, 4)
    answer = world.read(user_of(1), user_of(0), user_of(1))
    assert [base_of(answer, i).get(P0) for i in range(3)] == [4, 10, 4]


def test_entities_of_other_nodes_are_answered_while_one_is_away() -> None:
    world = World(deployment())
    for warm in (False, True):
        world.readers.away = {1}
        assert world.read(user_of(0)).flags == ()
        with pytest.raises(StoreUnavailable, match="node 2"):
            world.read(user_of(1))
        with pytest.raises(StoreUnavailable):
            world.read(user_of(0), user_of(1))
        assert world.read(user_of(1), name="declared").flags == ("default",), warm
        world.readers.away = set()
        assert world.read(user_of(0), user_of(1)).flags == ()


def test_the_entities_of_a_node_that_was_emptied_are_refused_until_it_has_its_history_again() -> (
    None
):
    world = World(deployment())
    world.advance(0, 10)
    world.advance(1, 10)
    assert base_of(world.read(user_of(1))).get(P0) == 10
    world.servers[1].flush()
    assert base_of(world.read(user_of(0))).get(P0) == 10
    with pytest.raises((StoreUnavailable, NotReady)):
        world.read(user_of(1))
    store = world.connect()
    metadata = store.run(Initialise())
    assert metadata.behind == (1,)
    with pytest.raises((StoreUnavailable, NotReady)):
        world.read(user_of(1))
    metadata = store.run(
        Deploy(
            world.deployed,
            metadata.deployment_version,
            {"plays": TOPIC},
            OffsetVector({P0: 1, P1: 1}),
        )
    )
    assert (metadata.behind, metadata.committed.get(P0)) == ((), 1)
    (unit,) = world.deployed.units
    assert metadata.starts[unit.storage_fingerprint].get(P0) == 1, (
        "it is brought again what the log has"
    )
    with pytest.raises(NotReady, match="building"):
        world.read(user_of(1))
    assert world.read(user_of(0)).flags == ()
    store.run(
        MarkReady(
            unit, metadata.starts[unit.storage_fingerprint], {"v": [unit.storage_fingerprint]}
        )
    )
    with pytest.raises(Recovering):
        world.read(user_of(1))
    world.advance(1, 10)
    assert base_of(world.read(user_of(1))).get(P0) == 10


def test_what_a_running_batch_had_brought_is_missed_on_the_node_that_lost_it() -> None:
    world = World(deployment())
    (unit,) = world.deployed.units
    now = world.clock.now_us() - 1
    for offset, number in ((5, 0), (6, 1)):
        columns = {**user_of(number), "t": now}
        world.connect().run(ApplyBatch(batch(unit, [Event(0, offset, now, columns, TOPIC)])))
    answer = world.read(user_of(0), user_of(1))
    assert [base_of(answer, i).get(P0) for i in (0, 1)] == [6, 7]
    for server in world.servers:
        server.restart(lost_writes=1 if server is world.servers[1] else 0)
    assert world.read(user_of(0)).flags == ()
    with pytest.raises(Recovering, match="6 to go"):
        world.read(user_of(0), user_of(1))
    world.advance(1, 7)
    assert world.read(user_of(0), user_of(1)).flags == ()


def test_a_deployment_that_stopped_between_two_nodes_is_answered_by_those_that_have_it() -> None:
    world = World(deployment())
    assert world.read(user_of(0), user_of(1)).flags == ()
    newer = plan(
        Project.of("p", [*_views("v", "w"), sw.FeatureSet("strict", features=["w:n_10s"])])
    )
    node = world.servers[0].connect()
    first = Store(node, "1/2")
    first.run(
        Deploy(
            newer, first.run(ReadMetadata()).deployment_version, {"plays": TOPIC}, OffsetVector()
        )
    )
    for unit in newer.units:
        start = first.run(ReadMetadata()).starts[unit.storage_fingerprint]
        first.run(MarkReady(unit, start, {unit.view: [unit.storage_fingerprint]}))
    assert world.read(user_of(0)).features == ("w:n_10s",)
    with pytest.raises(StoreUnavailable, match="node 2 of 2"):
        world.read(user_of(1))
    catalog = world.connection.run(world.service.load())
    report = world.connection.run(world.service.readiness(catalog))
    assert (report["ready"], len(report["reasons"])) == (False, 1)


def _views(*names: str) -> list[sw.FeatureView]:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    features = [sw.Feature("n", sw.count(), windows=["10s"])]
    return [
        sw.FeatureView(name, source=source, entity=["user"], features=features) for name in names
    ]


def test_each_partition_of_a_per_partition_view_has_the_committed_offset_of_the_node_with_its_keys() -> (
    None
):
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    features = [sw.Feature("n", sw.count(), windows=["10s"])]
    view = sw.FeatureView("v", source=source, entity=[], features=features)
    world = World(plan(Project.of("p", [view, sw.FeatureSet("strict", features=["v:n_10s"])])), 4)
    for number in range(4):
        world.advance(number, 10 + number)
    tags = {p: keys.entity_tags([], [], p)[0] for p in (0, 1)}
    want = {(TOPIC, p): 10 + node_of(tag, 4) for p, tag in tags.items()}
    assert base_of(world.read({})) == OffsetVector(want)
    assert len(set(want.values())) == 2, "they are on two nodes"


def test_a_partition_that_one_node_alone_has_begun_stays_in_the_token() -> None:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    view = sw.FeatureView(
        "v", source=source, entity=[], features=[sw.Feature("n", sw.count(), windows=["10s"])]
    )
    world = World(plan(Project.of("p", [view, sw.FeatureSet("strict", features=["v:n_10s"])])))
    third = next(p for p in range(2, 20) if node_of(keys.entity_tags([], [], p)[0], 2) == 1)
    begun = OffsetVector({P0: 10, P1: 10, (TOPIC, third): 5})
    world.advance(0, 10)
    node = world.servers[1].connect()
    store = Store(node, node_name(1, 2))
    metadata = store.run(ReadMetadata())
    store.run(
        AdvanceCommitted(metadata.committed, begun, metadata.deployment_version, metadata.units)
    )
    on_first = [p for p in (0, 1) if node_of(keys.entity_tags([], [], p)[0], 2) == 0]
    seen = [base_of(world.read({})).get((TOPIC, third))]
    if not on_first:  # its answers need the second node alone
        world.readers.away = {0}
        world.service.catalog = None
        seen.append(base_of(world.read({})).get((TOPIC, third)))
        world.readers.away = set()
        world.connection.run(world.service.load())
        seen.append(base_of(world.read({})).get((TOPIC, third)))
    assert set(seen) == {5}


def test_a_list_holds_what_it_was_filled_with_also_where_its_node_has_yet_to_apply_it() -> None:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    views = [
        sw.FeatureView(
            name,
            source=source,
            entity=["user"],
            features=[sw.Feature("n", sw.count(), windows=[window])],
        )
        for name, window in (("v", "10s"), ("w", sw.exact_range("10s")))
    ]
    world = World(plan(Project.of("p", [views[0], sw.FeatureSet("strict", features=["v:n_10s"])])))
    world.advance(0, 10)
    world.advance(1, 4)
    world.deployed = plan(
        Project.of("p", [*views, sw.FeatureSet("strict", features=["w:n_exact_10s", "v:n_10s"])])
    )
    world.deploy()
    (listed,) = (unit for unit in world.deployed.units if isinstance(unit, ListUnit))
    assert [
        node.starts[listed.storage_fingerprint].get(P0)
        for node in world.connect().run(ReadMetadata()).by_node
    ] == [
        10,
        10,
    ]
    answer = world.read(user_of(1))
    bases = {token.unit: token.base.get(P0) for token in tokens.decode_all(answer.results[0].token)}
    assert bases.pop(listed.storage_fingerprint) == 10
    assert [*bases.values()] == [4]


def test_an_emptied_node_is_told_again_which_losses_were_accepted() -> None:
    world = World(deployment())
    now = world.clock.now_us()
    lost = AcceptedGap("plays", TOPIC, 0, 2, 5, now - 10**7, now + 10**7, "me", "lost", now)
    statuses.publish_gaps(world.connect(), "plays", (lost,))
    assert world.read(user_of(1)).flags == ("incomplete",)
    world.servers[1].flush()
    world.deploy()
    statuses.publish_gaps(world.connect(), "plays", (lost,))
    world.readers.away = {0}
    world.service, world.connection = (
        FeatureService(world.clock),
        SyncConnection(lambda: world.readers),
    )
    assert world.read(user_of(1)).flags == ("incomplete",)


@pytest.mark.parametrize("older", [0, 1])
def test_a_loss_that_any_node_was_told_of_flags_answers_also_where_another_forgot_it(
    older: int,
) -> None:
    world = World(deployment())
    now = world.clock.now_us()
    far = AcceptedGap("plays", TOPIC, 1, 0, 1, 0, 10**6, "me", "lost long ago", 0)
    near = AcceptedGap("plays", TOPIC, 0, 2, 5, now - 10**7, now + 10**7, "me", "lost", now)
    statuses.publish_gaps(world.connect(), "plays", (far, near))
    node = world.servers[older].connect()
    store = Store(node, node_name(older, 2))
    store.run(PutStatus("holes:plays", to_json((far,))))  # its last commands are lost
    assert from_json(world.connect().run(ReadStatus("holes:plays")) or "", "status") == (far, near)
    assert world.read(user_of(1)).flags == ("incomplete",)
    store.run(PutStatus("holes:plays", "no list"))
    world.service, world.connection = (
        FeatureService(world.clock),
        SyncConnection(lambda: world.readers),
    )
    assert world.read(user_of(1)).flags == ("incomplete",), "any event may be lost"


def test_a_leaderboard_is_answered_again_when_its_node_is_back() -> None:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    view = sw.FeatureView(
        "v", source=source, entity=["user"], features=[sw.Feature("n", sw.count(), windows=["10s"])]
    )
    leaderboards = [
        sw.Leaderboard(f"top{i}", view=view, by="n_10s", k=3, every="1s") for i in range(6)
    ]
    world = World(
        plan(Project.of("p", [view, *leaderboards, sw.FeatureSet("strict", features=["v:n_10s"])]))
    )
    second = next(
        leaderboard.name
        for leaderboard in leaderboards
        if node_of(leaderboard.name.encode(), 2) == 1
    )
    world.readers.away = {1}
    world.read(user_of(0))
    with pytest.raises(StoreUnavailable):
        world.connection.run(read_leaderboard(world.service, second))
    world.readers.away = set()
    assert world.connection.run(read_leaderboard(world.service, second)).flags == ("missing",)


def test_what_any_node_may_say_does_not_wait_for_a_silent_one_as_data_does() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        url = ",".join(
            f"redis://127.0.0.1:{listener.getsockname()[1]}/0" for listener in (one, other)
        )
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="node 1 of 2"):
            SyncNodes(url, 30.0).run(ReadStatus("stream"))
        assert time.monotonic() - begun < 30.0, "less than one node's own bound"


def test_addresses_in_another_order_or_number_are_refused() -> None:
    world = World(deployment())
    a, b = world.servers
    other = MemoryServer(world.clock, name="other")
    for servers in ((b, a), (a,), (b,), (a, b, other), (a, other, b)):
        with pytest.raises(SettingsError, match="node"):
            open_memory(*servers)
    alone = open_memory(other)
    alone.run(Initialise())
    with pytest.raises(SettingsError, match="only node"):
        open_memory(a, other)
    third, fourth = (MemoryServer(world.clock, name=name) for name in "cd")
    world.clock.advance(1)
    open_memory(third, fourth).run(Initialise())
    with pytest.raises(SettingsError, match="different stores"):
        open_memory(a, fourth)
    with pytest.raises(SettingsError, match="twice"):
        open_memory(a, a)
