"""One of two nodes is emptied, and killed, under load: entities of the other are answered all the
while."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis

from slicewise.local.servers import control, services, stream
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.process import wait_gone
from slicewise.local.servers.state import StateFolder
from slicewise.offsets.token import decode_all
from slicewise.stores.online.keys import entity_tags
from slicewise.stores.online.sharded.routing import node_of
from tests.integration.stores.test_store_lost import (
    COLUMNS,
    DEFINITIONS,
    SEED,
    TOPIC,
    USERS,
    Reader,
    Reply,
    applied,
    awaited,
    judge,
    load_until,
    raw_events,
    sum_of,
)
from tests.support.platform.stack import Stack, stack_of

NODES = 2
LOST = "redis-2"
OF_NODE = [
    [
        user
        for user in USERS
        if node_of(entity_tags([("user", "string")], [[user]])[0], NODES) == number
    ]
    for number in range(NODES)
]


def empty(running: Stack) -> None:
    """FLUSHALL of the second node."""
    state = StateFolder(running.settings.state_dir)
    with redis.Redis.from_url(redis_server.operator_url(state, state.ports()["redis_2"])) as client:
        client.flushall()


def kill_for(running: Stack, seconds: float) -> None:
    """SIGKILL of the second node, which is started again on what it had written."""
    state = StateFolder(running.settings.state_dir)
    service = services.build(running.settings).services[LOST]
    birth = control.running(service, state)
    assert birth is not None, "it does not run"
    birth.signal(signal.SIGKILL)
    assert not wait_gone([birth], 10.0)
    time.sleep(seconds)
    control.await_well(service, control.start(service, state, running.settings), state, print)


def is_of_a_waiting_batch(replies: Sequence[Reply], refused: Reply) -> bool:
    """Tells whether it was asked of all entities what one of them had alone, of a batch that waits:
    the others did not have it when that one's token was given. Events that all had then they must
    have ever after."""
    if refused.kind != "BehindToken" or not refused.wanted:
        return False
    gave = next(
        reply for reply in replies if reply.results and reply.results[0]["token"] == refused.wanted
    )
    wanted, *others = (decode_all(result["token"])[0].base for result in gave.results)
    return any(not base.dominates(wanted) for base in others)


def test_one_of_two_nodes_is_lost_under_load_and_the_entities_of_the_other_are_answered(
    tmp_path: Path,
) -> None:
    print(f"seed {SEED}, users by node {[len(users) for users in OF_NODE]}")
    assert all(OF_NODE), "each node has users"
    with stack_of(DEFINITIONS, tmp_path, {"SLICEWISE_STORE_NODES": str(NODES)}) as running:
        running.up("redis", "kafka", "serving")
        assert {row.name: row.state for row in running.status()}[LOST] == "up"
        running.cli("apply", "--no-wait")
        driver = running.start_stream()
        stays, loses = (Reader(running.settings, users) for users in OF_NODE)
        stop = threading.Event()
        with ThreadPoolExecutor(3) as pool:
            try:
                others = [pool.submit(load_until, running, stop)]
                others += [pool.submit(reader.read_until, stop) for reader in (stays, loses)]
                running.wait(lambda: None if applied(running) else "nothing", "the first batch")
                for befall in (empty, lambda stack: kill_for(stack, 3.0)):
                    before = awaited(running, loses, time.monotonic(), others, right=True)
                    awaited(running, stays, time.monotonic(), others, right=True)
                    at = time.monotonic()
                    befall(running)
                    refused = awaited(running, loses, at, others, right=False)
                    healed = awaited(running, loses, refused.at, others, right=True)
                    awaited(running, stays, healed.at, others, right=True)
                    kinds = [
                        Counter(e.kind or "right" for e in r.replies if at < e.at < healed.at)
                        for r in (stays, loses)
                    ]
                    print(
                        f"right after {healed.at - at:.1f} s; meanwhile "
                        f"{[dict(kind) for kind in kinds]}"
                    )
                    during = [reply for reply in stays.replies if at < reply.at < healed.at]
                    assert any(reply.right for reply in during), (
                        "the other node's entities had no answer"
                    )
                    refusals = [
                        reply.kind
                        for reply in during
                        if not (reply.right or is_of_a_waiting_batch(stays.replies, reply))
                    ]
                    assert not refusals, "an entity of the other node was refused"
                    assert sum_of(healed) >= sum_of(before), (
                        "an answer of after has less than one of before"
                    )
            finally:
                stop.set()
            for other in others:
                other.result()
        running.wait_applied(TOPIC)
        last = running.request(
            features=[f"by_user:{column}" for column in COLUMNS],
            entities=[{"user": u} for u in USERS],
        )
        events = raw_events(running)
        (whole,) = {decode_all(result["token"])[0].base for result in last["results"]}
        assert sum(whole.offsets.values()) == len(events), (
            "what was produced is applied, on both nodes"
        )
        replies = [
            *stays.replies,
            *loses.replies,
            Reply(time.monotonic(), 200, "", None, None, last["results"]),
        ]
        judged = judge(replies, events)
        print(f"{len(events)} events, {len(replies)} answers, {judged.compared} values compared")
        assert not judged.wrong, "\n".join(judged.wrong[:20])
        assert {reply.status for reply in replies if not reply.right} == {503}
        assert stream.stream_status(running.settings).pid == driver, (
            "nobody started the driver again"
        )
