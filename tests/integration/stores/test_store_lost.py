"""A store that is emptied under load, with the stream running, refuses or is right, and heals
without a hand."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx
import redis

from slicewise.local.servers import redis as redis_server
from slicewise.local.servers import stream
from slicewise.local.servers.state import StateFolder
from slicewise.offsets.token import decode_all
from slicewise.settings import Settings
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.e2e.compare import Count
from tests.support.oracles.answers import OracleEvent, contained, count, inside, sum_
from tests.support.platform.stack import Stack, stack_of

SEED = 20261122
TOPIC = "plays"
USERS = [f"user {n}" for n in range(12)]
COLUMNS: Mapping[str, Callable[[Sequence[OracleEvent]], Any]] = {
    "plays_1h": count,
    "total_1h": lambda events: sum_(events, "n"),
}
LOSSES = 2
READ_EVERY_S = 0.05
DEFINITIONS = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays", schema={"user": "string", "n": "int64", "t": "timestamp_us"}, timestamp="t", max_lateness="1d"
)
by_user = sw.FeatureView(
    "by_user",
    source=plays,
    entity=["user"],
    features=[sw.Feature("plays", sw.count(), windows=["1h"]), sw.Feature("total", sw.sum("n"), windows=["1h"])],
)
"""


class Reply(NamedTuple):
    """One answer. at: when it came, by the monotonic clock; kind: of a refusal; wanted: the
    `min_token` that it must reach."""

    at: float
    status: int
    kind: str
    retry_after: str | None
    wanted: str | None
    results: Sequence[Mapping[str, Any]]

    @property
    def right(self) -> bool:
        return self.status == 200


@dataclass
class Reader:
    """Asks for users again and again; every second time for no less than what it was told
    before."""

    settings: Settings
    users: Sequence[str] = tuple(USERS)
    replies: list[Reply] = field(default_factory=list)

    def read_until(self, stop: threading.Event) -> None:
        body = {
            "features": [f"by_user:{column}" for column in COLUMNS],
            "entities": [{"user": u} for u in self.users],
        }
        newest: str | None = None
        number = 0
        with httpx.Client(
            base_url=self.settings.serving_url, timeout=30, trust_env=False, verify=False
        ) as client:
            while not stop.wait(READ_EVERY_S):
                number += 1
                wanted = newest if number % 2 else None
                reply = client.post(
                    "/v1/features", json=body | ({"min_token": wanted} if wanted else {})
                )
                answer_json = reply.json()
                results = answer_json.get("results", ())
                kind = answer_json.get("error", {}).get("kind", "")
                after = reply.headers.get("retry-after")
                self.replies.append(
                    Reply(time.monotonic(), reply.status_code, kind, after, wanted, results)
                )
                if results:
                    newest = results[0]["token"]

    def first(self, since: float, *, right: bool) -> Reply | None:
        """The first answer of a kind that came since then."""
        return next(
            (reply for reply in self.replies if reply.at > since and reply.right == right), None
        )


def event(rng: Random) -> Callable[[int], Mapping[str, Any]]:
    return lambda now_us: {
        "user": rng.choice(USERS),
        "n": rng.randint(-(10**9), 10**9),
        "t": now_us,
    }


def load_until(running: Stack, stop: threading.Event) -> None:
    rng = Random(SEED)
    while not stop.is_set():
        running.produce_for(0.5, TOPIC, rng, event(rng))


def awaited(
    running: Stack, reader: Reader, since: float, others: Sequence[Future[None]], *, right: bool
) -> Reply:
    """The first answer of a kind, while the others work."""

    def reason() -> str | None:
        for other in others:
            if other.done():
                other.result()
        return (
            None
            if reader.first(since, right=right) is not None
            else f"{len(reader.replies)} answers, none of it"
        )

    running.wait(reason, "right answers" if right else "a refusal", 120)
    row = reader.first(since, right=right)
    assert row is not None
    return row


def empty(running: Stack) -> float:
    """FLUSHALL, as an operator may; when."""
    state = StateFolder(running.settings.state_dir)
    client = redis.Redis.from_url(redis_server.operator_url(state, state.ports()["redis"]))
    at = time.monotonic()
    client.flushall()
    client.close()
    return at


def judge(replies: Sequence[Reply], events: Sequence[OracleEvent]) -> Count:
    """Every value that was answered, against the raw log at the answer's own token."""
    of_user = {user: [e for e in events if e.columns["user"] == user] for user in USERS}
    expected: dict[tuple[Any, ...], Any] = {}
    answer = Count()
    for reply in replies:
        wanted = decode_all(reply.wanted) if reply.wanted and reply.right else ()
        for result in reply.results:
            user = result["entity"]["user"]
            (token,) = decode_all(result["token"])
            base = token.base.offsets
            for needed in wanted:
                assert all(
                    base.get(topic_partition, 0) >= offset
                    for topic_partition, offset in needed.base.offsets.items()
                ), (user, reply)
            for column, value_of in COLUMNS.items():
                start, end = token.bounds[column]
                key = user, column, start, end, tuple(sorted(base.items()))
                if key not in expected:
                    compacted_beyond = {
                        hour: offset_vector.offsets
                        for hour, offset_vector in token.compacted_beyond.items()
                    }
                    expected[key] = value_of(
                        inside(contained(of_user[user], base, compacted_beyond), start, end)
                    )
                answer.check(
                    f"{user} {column}", expected[key], result["values"][f"by_user:{column}"]
                )
    return answer


def raw_events(running: Stack) -> list[OracleEvent]:
    return [
        OracleEvent((columns := json.loads(value))["t"], topic, partition, offset, columns)
        for topic, partition, offset, _, value in running.records(TOPIC)
    ]


def test_a_store_that_is_emptied_under_load_refuses_or_is_right_and_heals_by_itself(
    tmp_path: Path,
) -> None:
    print(f"seed {SEED}")
    with stack_of(DEFINITIONS, tmp_path) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        driver = running.start_stream()
        reader, stop = Reader(running.settings), threading.Event()
        with ThreadPoolExecutor(2) as pool:
            try:
                others = [
                    pool.submit(load_until, running, stop),
                    pool.submit(reader.read_until, stop),
                ]
                running.wait(lambda: None if applied(running) else "nothing", "the first batch")
                for number in range(1, LOSSES + 1):
                    before = awaited(running, reader, time.monotonic(), others, right=True)
                    emptied = empty(running)
                    refused = awaited(running, reader, emptied, others, right=False)
                    healed = awaited(running, reader, refused.at, others, right=True)
                    meanwhile = [
                        reply for reply in reader.replies if emptied < reply.at < healed.at
                    ]
                    kinds = Counter(answer.kind for answer in meanwhile)
                    print(
                        f"emptied for the {number}. time: {dict(kinds)}; right after "
                        f"{healed.at - emptied:.1f} s"
                    )
                    assert "Recovering" in kinds, "it came back without a word of what it lacked"
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
        assert sum(whole.offsets.values()) == len(events), "what was produced is applied"
        replies = [*reader.replies, Reply(time.monotonic(), 200, "", None, None, last["results"])]
        judged = judge(replies, events)
        kinds = Counter(reply.kind or "right" for reply in replies)
        print(
            f"{len(events)} events, {len(replies)} answers {dict(kinds)}, {judged.compared} "
            "values compared"
        )
        assert not judged.wrong, "\n".join(judged.wrong[:20])
        refusals = [reply for reply in replies if not reply.right]
        assert {refusal.status for refusal in refusals} == {503}
        assert all(int(refusal.retry_after or 0) >= 1 for refusal in refusals)
        assert set(kinds) <= {"right", "Recovering", "NotReady", "BehindToken", "StoreUnavailable"}
        assert stream.stream_status(running.settings).pid == driver, (
            "nobody started the driver again"
        )


def applied(running: Stack) -> int:
    with running.store() as store:
        return sum(store.run(ReadMetadata()).committed.offsets.values())


def sum_of(reply: Reply) -> int:
    """Events in an answer; of an hour in which all of them lie."""
    return sum(int(result["values"]["by_user:plays_1h"]) for result in reply.results)
