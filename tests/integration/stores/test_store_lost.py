"""A store that is emptied under load, with the stream running, refuses or is right, and heals without a hand."""

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
from tests.support.oracles.answers import OracleEvent, count, covered, inside, sum_
from tests.support.platform.stack import Stack, stack_of

SEED = 20261122
TOPIC = "plays"
USERS = [f"user {n}" for n in range(12)]
COLUMNS: Mapping[str, Callable[[Sequence[OracleEvent]], Any]] = {
    "plays_1h": count,
    "total_1h": lambda events: sum_(events, "n"),
}
LOSSES = 2
ASK_EVERY_S = 0.05
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


class Said(NamedTuple):
    """One answer. at: when it came, by the monotonic clock; kind: of a refusal; wanted: the `min_token` that it must
    reach."""

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
    """Asks for users again and again; every second time for no less than what it was told before."""

    settings: Settings
    users: Sequence[str] = tuple(USERS)
    said: list[Said] = field(default_factory=list)

    def ask_until(self, stop: threading.Event) -> None:
        body = {"features": [f"by_user:{column}" for column in COLUMNS], "entities": [{"user": u} for u in self.users]}
        newest: str | None = None
        number = 0
        with httpx.Client(base_url=self.settings.serving_url, timeout=30, trust_env=False, verify=False) as client:
            while not stop.wait(ASK_EVERY_S):
                number += 1
                wanted = newest if number % 2 else None
                reply = client.post("/v1/features", json=body | ({"min_token": wanted} if wanted else {}))
                told = reply.json()
                results = told.get("results", ())
                kind = told.get("error", {}).get("kind", "")
                after = reply.headers.get("retry-after")
                self.said.append(Said(time.monotonic(), reply.status_code, kind, after, wanted, results))
                if results:
                    newest = results[0]["token"]

    def first(self, since: float, *, right: bool) -> Said | None:
        """The first answer of a kind that came since then."""
        return next((each for each in self.said if each.at > since and each.right == right), None)


def event(rng: Random) -> Callable[[int], Mapping[str, Any]]:
    return lambda now_us: {"user": rng.choice(USERS), "n": rng.randint(-(10**9), 10**9), "t": now_us}


def load_until(running: Stack, stop: threading.Event) -> None:
    rng = Random(SEED)
    while not stop.is_set():
        running.produce_for(0.5, TOPIC, rng, event(rng))


def awaited(running: Stack, reader: Reader, since: float, others: Sequence[Future[None]], *, right: bool) -> Said:
    """The first answer of a kind, while the others work."""

    def reason() -> str | None:
        for each in others:
            if each.done():
                each.result()
        return None if reader.first(since, right=right) is not None else f"{len(reader.said)} answers, none of it"

    running.wait(reason, "right answers" if right else "a refusal", 120)
    found = reader.first(since, right=right)
    assert found is not None
    return found


def empty(running: Stack) -> float:
    """FLUSHALL, as an operator may; when."""
    state = StateFolder(running.settings.state_dir)
    client = redis.Redis.from_url(redis_server.operator_url(state, state.ports()["redis"]))
    at = time.monotonic()
    client.flushall()
    client.close()
    return at


def judge(said: Sequence[Said], events: Sequence[OracleEvent]) -> Count:
    """Every value that was answered, against the raw log at the answer's own token."""
    of_user = {user: [e for e in events if e.columns["user"] == user] for user in USERS}
    known: dict[tuple[Any, ...], Any] = {}
    found = Count()
    for each in said:
        wanted = decode_all(each.wanted) if each.wanted and each.right else ()
        for result in each.results:
            user = result["entity"]["user"]
            (token,) = decode_all(result["token"])
            base = token.base.offsets
            for asked in wanted:
                assert all(base.get(place, 0) >= offset for place, offset in asked.base.offsets.items()), (user, each)
            for column, value_of in COLUMNS.items():
                start, end = token.bounds[column]
                key = user, column, start, end, tuple(sorted(base.items()))
                if key not in known:
                    ahead = {hour: cover.offsets for hour, cover in token.ahead.items()}
                    known[key] = value_of(inside(covered(of_user[user], base, ahead), start, end))
                found.check(f"{user} {column}", known[key], result["values"][f"by_user:{column}"])
    return found


def raw_events(running: Stack) -> list[OracleEvent]:
    return [
        OracleEvent((columns := json.loads(value))["t"], topic, partition, offset, columns)
        for topic, partition, offset, _, value in running.records(TOPIC)
    ]


def test_a_store_that_is_emptied_under_load_refuses_or_is_right_and_heals_by_itself(tmp_path: Path) -> None:
    print(f"seed {SEED}")
    with stack_of(DEFINITIONS, tmp_path) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        driver = running.start_stream()
        reader, stop = Reader(running.settings), threading.Event()
        with ThreadPoolExecutor(2) as pool:
            try:
                others = [pool.submit(load_until, running, stop), pool.submit(reader.ask_until, stop)]
                running.wait(lambda: None if applied(running) else "nothing", "the first batch")
                for number in range(1, LOSSES + 1):
                    before = awaited(running, reader, time.monotonic(), others, right=True)
                    emptied = empty(running)
                    refused = awaited(running, reader, emptied, others, right=False)
                    healed = awaited(running, reader, refused.at, others, right=True)
                    meanwhile = [each for each in reader.said if emptied < each.at < healed.at]
                    kinds = Counter(each.kind for each in meanwhile)
                    print(f"emptied for the {number}. time: {dict(kinds)}; right after {healed.at - emptied:.1f} s")
                    assert "Recovering" in kinds, "it came back without a word of what it lacked"
                    assert sum_of(healed) >= sum_of(before), "an answer of after has less than one of before"
            finally:
                stop.set()
            for each in others:
                each.result()
        running.wait_applied(TOPIC)
        last = running.ask(features=[f"by_user:{column}" for column in COLUMNS], entities=[{"user": u} for u in USERS])
        events = raw_events(running)
        (whole,) = {decode_all(result["token"])[0].base for result in last["results"]}
        assert sum(whole.offsets.values()) == len(events), "what was produced is applied"
        said = [*reader.said, Said(time.monotonic(), 200, "", None, None, last["results"])]
        judged = judge(said, events)
        kinds = Counter(each.kind or "right" for each in said)
        print(f"{len(events)} events, {len(said)} answers {dict(kinds)}, {judged.compared} values compared")
        assert not judged.wrong, "\n".join(judged.wrong[:20])
        refusals = [each for each in said if not each.right]
        assert {each.status for each in refusals} == {503}
        assert all(int(each.retry_after or 0) >= 1 for each in refusals)
        assert set(kinds) <= {"right", "Recovering", "NotReady", "BehindToken", "StoreUnavailable"}
        assert stream.stream_status(running.settings).pid == driver, "nobody started the driver again"


def applied(running: Stack) -> int:
    with running.store() as store:
        return sum(store.run(ReadMetadata()).ledger.offsets.values())


def sum_of(said: Said) -> int:
    """Events in an answer; of an hour in which all of them lie."""
    return sum(int(result["values"]["by_user:plays_1h"]) for result in said.results)
