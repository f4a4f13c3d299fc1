"""A key's node never changes, and what several nodes claim together is what each of them holds."""

from __future__ import annotations

import dataclasses

import pytest

from slicewise.errors import (
    DeploymentSuperseded,
    GapRefused,
    NotReady,
    SettingsError,
    StoreUnavailable,
)
from slicewise.lifecycle.health.overview import unready
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers import services
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings, urls_of
from slicewise.stores.online.keys import hot_key
from slicewise.stores.online.memory.store import open_memory
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.committed import BeginBatch
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, Renewal
from slicewise.stores.online.operations.publish_days import MarkHour, ReadHours
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.redis.status import StoreStatus, _together
from slicewise.stores.online.sharded.routing import node_of, slot
from slicewise.windows.durations import HOUR_US
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.several import (
    NAME,
    NOW_US,
    ON,
    UNIT,
    advance,
    deployed,
    one_node,
    servers,
)
from tests.support.stores.stored import (
    TOPIC,
    Event,
    StoreDeployment,
    StoreUnit,
    hour_entry,
    micro_batch,
    offset_vector,
    tag,
    topic_partition,
)


def test_slots_are_those_of_redis_cluster_and_nodes_have_equal_ranges_of_them() -> None:
    # CRC16 of "123456789" is 0x31C3 in Redis Cluster's specification; the others by CLUSTER KEYSLOT
    assert [slot(word) for word in (b"123456789", b"foo", b"bar", b"")] == [12739, 12182, 5061, 0]
    for count in (1, 2, 3, 7):
        result = [0] * count
        for entity in range(20_000):
            result[node_of(b"user:string:%d" % entity, count)] += 1
        assert min(result) > 0.9 * 20_000 / count


def test_a_node_that_lost_events_gets_them_again_and_the_others_count_them_once() -> None:
    nodes = servers()
    store = deployed(nodes)
    events = [Event(ON[offset % 2], NOW_US, 0, offset) for offset in range(10)]
    for begin in (0, 5):
        store.run(ApplyBatch(micro_batch(UNIT, events[begin : begin + 5])))
        advance(store, begin + 5)
    # the last batch's micro-batch lane and committed offsets are two commands of a node, and five
    # of its deployment stand before
    assert nodes[1].restart(2) == 2
    with pytest.raises(StoreUnavailable):
        store.run(ReadMetadata())
    store = open_memory(*nodes)
    assert [
        one_node(nodes, n).run(ReadMetadata()).committed.get(topic_partition()) for n in (0, 1)
    ] == [10, 5]
    metadata = store.run(ReadMetadata())
    assert metadata.committed == offset_vector(5)
    with pytest.raises(GapRefused):
        store.run(BeginBatch(offset_vector(6), metadata.deployment_version, metadata.units))
    outcome = store.run(ApplyBatch(micro_batch(UNIT, events[5:])))
    own = sum(event.entity == ON[1] for event in events[5:])
    assert (outcome.applied, outcome.already_applied) == (own, 5 - own)
    assert advance(store, 10) == offset_vector(10)


def test_a_deployment_that_stopped_between_two_nodes_applies_nothing_until_it_is_finished() -> None:
    nodes = servers()
    store = deployed(nodes)
    advance(store, 5)
    other = StoreUnit(storage_fingerprint="00000000000000bb", view="other")
    newer = StoreDeployment("two", (UNIT, other))
    one_node(nodes, 0).run(Deploy(newer, 1, {"plays": TOPIC}, offset_vector()))
    metadata = store.run(ReadMetadata())
    assert (metadata.deployment_version, metadata.units, metadata.behind) == (2, "two", (1,))
    for units, deployment_version in (("two", 2), ("one", 1)):
        with pytest.raises(DeploymentSuperseded):
            store.run(BeginBatch(offset_vector(5), deployment_version, units))
    with pytest.raises(DeploymentSuperseded):
        store.run(Deploy(StoreDeployment("three", (UNIT,)), 1))
    metadata = store.run(Deploy(newer, 2, {"plays": TOPIC}, offset_vector()))
    assert (metadata.deployment_version, metadata.units, metadata.behind) == (2, "two", ())
    assert store.run(BeginBatch(offset_vector(5), 2, "two")) == metadata
    assert store.run(Deploy(newer, 2, {"plays": TOPIC}, offset_vector())) == metadata, (
        "what stands everywhere changes nothing"
    )


def test_units_are_built_again_only_where_the_log_no_longer_has_what_is_lost() -> None:
    nodes = servers()
    store = deployed(nodes)
    advance(store, 5)
    nodes[1].restart(1)
    store = open_memory(*nodes)
    assert store.run(ReadMetadata()).committed == offset_vector()
    advance(one_node(nodes, 0), 20)
    renewal = Renewal(frozenset({NAME}), offset_vector(9))
    metadata = store.run(
        Deploy(StoreDeployment("one", (UNIT,)), 1, {"plays": TOPIC}, renewal=renewal)
    )
    first, second = (one_node(nodes, number).run(ReadMetadata()) for number in range(2))
    assert (first.deployment_version, first.builds, first.ready, first.committed) == (
        2,
        {},
        frozenset({NAME}),
        offset_vector(20),
    )
    assert (second.deployment_version, second.builds, second.ready, second.committed) == (
        2,
        {NAME: 2},
        frozenset(),
        offset_vector(9),
    )
    assert (metadata.behind, metadata.ready, metadata.builds, metadata.starts[NAME]) == (
        (),
        frozenset(),
        {NAME: 2},
        second.starts[NAME],
    )


def test_a_backfill_is_of_the_node_that_lacks_it_and_leaves_the_others_alone() -> None:
    nodes = servers()
    store = deployed(nodes)
    advance(store, 5)
    nodes[1].flush()
    store = open_memory(*nodes)
    with pytest.raises(NotReady):
        store.run(ReadMetadata())
    assert store.run(Initialise()).behind == (1,)
    metadata = store.run(
        Deploy(StoreDeployment("one", (UNIT,)), 1, {"plays": TOPIC}, offset_vector(3))
    )
    assert (metadata.starts[NAME], metadata.ready, metadata.committed) == (
        offset_vector(3),
        frozenset(),
        offset_vector(3),
    )
    hour = NOW_US // HOUR_US
    entries = [hour_entry(UNIT, entity, 0, [Event(entity, hour * HOUR_US, 0, 1)]) for entity in ON]
    store.run(HoldBuilds({NAME: 0}))
    outcome = store.run(PublishHour(UNIT, hour, 0, offset_vector(3), entries))
    assert (outcome.published, outcome.stale) == (1, 1)
    with pytest.raises(GapRefused):
        store.run(PublishHour(UNIT, hour, 0, offset_vector(4), entries))
    with pytest.raises(GapRefused):
        store.run(MarkHour(UNIT, hour, 0, offset_vector(4)))
    assert store.run(MarkHour(UNIT, hour, 0, offset_vector(3)))
    assert [one_node(nodes, number).run(ReadHours(UNIT)) for number in (0, 1)] == [{}, {hour: 0}]
    store.run(MarkReady(UNIT, offset_vector(3), {UNIT.view: [NAME]}))
    assert store.run(ReadMetadata()).ready == {NAME}


def test_what_a_backfill_brought_is_marked_on_the_nodes_that_it_was_made_for() -> None:
    nodes = servers()
    store = deployed(nodes)
    advance(store, 5)
    # the second node alone saw the unit go, and come back, after more of the log
    for digest, units in (("none", ()), ("again", (UNIT,))):
        one = one_node(nodes, 1)
        one.run(
            Deploy(
                StoreDeployment(digest, units),
                one.run(ReadMetadata()).deployment_version,
                {"plays": TOPIC},
                offset_vector(7),
            )
        )
    first, second = (one_node(nodes, number) for number in (0, 1))
    starts = [node.run(ReadMetadata()).starts[NAME] for node in (first, second)]
    assert starts[0] != starts[1]
    hour = NOW_US // HOUR_US
    sharded = open_memory(*nodes)
    assert sharded.run(MarkHour(UNIT, hour, 3, starts[1]))
    assert [node.run(ReadHours(UNIT)) for node in (first, second)] == [{}, {hour: 3}]
    assert sharded.run(ReadHours(UNIT)) == {}


def test_what_a_job_holds_is_of_one_build_on_every_node() -> None:
    nodes = servers()
    store, job = deployed(nodes), open_memory(*nodes)
    store.run(
        Deploy(StoreDeployment("none", (StoreUnit(storage_fingerprint="0" * 16, view="x"),)), 1)
    )
    store.run(Deploy(StoreDeployment("again", (UNIT,)), 2))
    with pytest.raises(DeploymentSuperseded, match="build 0"):
        job.run(HoldBuilds({NAME: 0}))
    job.run(HoldBuilds({NAME: 3}))
    job.run(
        ApplyBatch(micro_batch(UNIT, [Event(entity, NOW_US, 0, i) for i, entity in enumerate(ON)]))
    )
    store_id = store.store_id
    for entity in ON:
        (result,) = store.run(
            Read([EntityRead((UnitRead(hot_key(store_id, tag(entity), f"{NAME}.3")),))])
        ).entities[0]
        assert result.hot


def test_several_addresses_are_one_setting_and_have_no_real_time_lane() -> None:
    two = "redis://a:1/0, redis://b:2/0"
    loaded = Settings.load({"SLICEWISE_REDIS_URL": two})
    assert (loaded.realtime, urls_of(loaded.redis_url)) == (
        "off",
        ("redis://a:1/0", "redis://b:2/0"),
    )
    assert Settings.load(loaded.to_env()) == loaded
    for wrong in (
        {"SLICEWISE_REDIS_URL": two, "SLICEWISE_REALTIME": "on"},
        {"SLICEWISE_STORE_NODES": "2", "SLICEWISE_REALTIME": "on"},
        {"SLICEWISE_REDIS_URL": "redis://a:1/0,redis://a:1/0"},
        {"SLICEWISE_REDIS_URL": "redis://a:1/0,"},
        {"SLICEWISE_STORE_NODES": "0"},
        {"SLICEWISE_STORE_NODES": "65"},
        {"SLICEWISE_REDIS_URL": ",".join(f"redis://a:{port}/0" for port in range(1, 66))},
    ):
        with pytest.raises(SettingsError):
            Settings.load(wrong)


def test_a_comma_in_a_password_separates_no_addresses() -> None:
    one, two = "redis://:pa,ss@a:1/0", "redis://me:w,x@b:2/0"
    assert urls_of(one) == (one,)
    assert urls_of(f"{one},{two}") == (one, two)
    assert Settings.load({"SLICEWISE_REDIS_URL": one}).realtime == "on"


def test_who_does_not_say_how_many_nodes_run_finds_all_of_them(tmp_path: object) -> None:
    given = {"SLICEWISE_STATE": f"{tmp_path}/state"}
    settings = Settings.load({**given, "SLICEWISE_STORE_NODES": "2"})
    StateFolder(settings.state_dir).create()
    choose = services.chooser({}, settings.state_dir)
    services.build(settings, choose, env={"SLICEWISE_STORE_NODES": "2"})
    later = Settings.load(given)
    assert (later.store_nodes, later.realtime, len(urls_of(later.redis_url))) == (2, "off", 2)
    assert {"redis", "redis-2"} <= set(services.build(later, env={}).services)
    services.build(later, services.chooser(StateFolder(settings.state_dir).ports()), env={})
    assert Settings.load(given).redis_url == later.redis_url


def test_each_embedded_node_is_a_server_with_a_port_of_its_own(tmp_path: object) -> None:
    settings = Settings.load({"SLICEWISE_STATE": f"{tmp_path}/state", "SLICEWISE_STORE_NODES": "3"})
    assert (
        services.names_of(settings)[:3]
        == tuple(redis_server.names(3))
        == ("redis", "redis-2", "redis-3")
    )
    assert [services.ports_of(settings)[name] for name in redis_server.names(3)] == [
        ("redis",),
        ("redis_2",),
        ("redis_3",),
    ]


def test_the_picture_shows_what_all_nodes_claim_and_which_is_wanting() -> None:
    g, unit = f"g:{TOPIC}:0", {"storage_fingerprint": NAME, "view": "v", "source": "plays"}
    one = StoreStatus(
        5,
        {"epoch": b"2", "units": b"d", g: b"9", f"y:{NAME}": b"1"},
        {"units": [unit]},
        {"job:a": "x"},
    )
    other = dataclasses.replace(
        one, metadata={"epoch": b"2", "units": b"d", g: b"4", f"w:{TOPIC}:0": b"8"}, now_us=7
    )
    picture = _together({0: one, 1: other}, ["node 3 of 3 is away"], 3)
    assert (picture.now_us, picture.metadata[g], unready(picture)) == (7, b"4", ("v",))
    older = dataclasses.replace(other, metadata={**other.metadata, "epoch": b"1"})
    picture = _together({0: one, 1: older}, [], 2)
    assert picture.wanting == ("node 2 of 2 lacks the newest deployment",)
