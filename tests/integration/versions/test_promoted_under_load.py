"""A version is promoted while everybody reads: no read fails, and none is of two versions."""

from __future__ import annotations

import threading
import time

import httpx

import slicewise as sw
from slicewise.aggregates import Aggregate
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined, promoted
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from tests.integration.serving.support import plays, serving
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import Event, Served

PROMOTIONS, READERS = 40, 3
REFS = ["listening:n_1m", "listening:n_30d"]


def deployment(aggregate: Aggregate) -> Deployment:
    """A view of two units whose features are this aggregate, and a set of them."""
    feature = sw.Feature("n", aggregate, windows=["1m", "30d"])
    view = sw.FeatureView("listening", source=plays, entity=["user_id"], features=[feature])
    return plan(Project("tests", (view,), (sw.FeatureSet("model", features=REFS),)))


class Reader(threading.Thread):
    """A client that asks one question after another, by refs and by the feature set in turn."""

    def __init__(self, url: str, over: threading.Event) -> None:
        super().__init__()
        self.url, self.over = url, over
        self.seen: dict[tuple[int, int], int] = {}
        self.failed: list[str] = []

    def run(self) -> None:
        entities = [{"user_id": "ann"}]
        bodies = [
            {"features": REFS, "entities": entities},
            {"feature_set": "model", "entities": entities},
        ]
        with httpx.Client(base_url=self.url, trust_env=False, timeout=30) as client:
            while not self.over.is_set():
                for body in bodies:
                    reply = client.post("/v1/features", json=body)
                    if reply.status_code != 200:
                        self.failed.append(reply.text)
                        continue
                    values = reply.json()["results"][0]["values"]
                    pair = (values[REFS[0]], values[REFS[1]])
                    self.seen[pair] = self.seen.get(pair, 0) + 1


def test_a_name_moves_under_full_read_load_without_a_failed_or_a_mixed_read(
    own_redis: RedisServer,
) -> None:
    first = deployment(sw.sum("n"))
    both = joined(deployment(sw.max("n")), first)
    assert both.views == ("listening", "listening@2")
    assert len(both.view("listening")) > 1, "a read of it takes two units"
    now_us = time.time_ns() // 1000
    columns = {"user_id": "ann", "country": "se", "seconds": 1.0}
    events = [
        Event(0, i, now_us - 2_000_000 + i, {**columns, "n": n, "played_at": now_us})
        for i, n in enumerate((3, 4, 5))
    ]
    with Served.on(own_redis.url, both) as served:
        served.apply(events)
        over = threading.Event()
        with serving(own_redis.url) as url:
            readers = [Reader(url, over) for _ in range(READERS)]
            for reader in readers:
                reader.start()
            try:
                stands = both
                for number in range(PROMOTIONS):
                    stands = promoted(stands, f"listening@{2 - number % 2}")
                    metadata = served.store.run(ReadMetadata())
                    served.store.run(
                        Deploy(stands, metadata.deployment_version, topics=metadata.topics)
                    )
                    time.sleep(0.05)
            finally:
                over.set()
                for reader in readers:
                    reader.join(60)
    assert [reader.failed for reader in readers] == [[] for _ in readers]
    seen = {pair for reader in readers for pair in reader.seen}
    print({pair: sum(reader.seen.get(pair, 0) for reader in readers) for pair in seen})
    assert seen == {(12, 12), (5, 5)}, "of the first version or of the second, whole"


def test_both_versions_are_read_by_their_own_names_whichever_is_live(
    own_redis: RedisServer,
) -> None:
    both = joined(deployment(sw.max("n")), deployment(sw.sum("n")))
    now_us = time.time_ns() // 1000
    columns = {"user_id": "ann", "country": "se", "seconds": 1.0, "played_at": now_us}
    events = [Event(0, i, now_us - 2_000_000, {**columns, "n": 2}) for i in range(3)]
    names = ("listening", "listening@1", "listening@2")
    refs = [f"{name}:n_1m" for name in names]
    body = {"features": refs, "entities": [{"user_id": "ann"}]}
    with Served.on(own_redis.url, both) as served:
        served.apply(events)
        with serving(own_redis.url) as url:
            for deployed, live in ((both, 6), (promoted(both, "listening@2"), 2)):
                metadata = served.store.run(ReadMetadata())
                served.store.run(
                    Deploy(deployed, metadata.deployment_version, topics=metadata.topics)
                )
                reply = httpx.post(f"{url}/v1/features", json=body, trust_env=False)
                assert reply.status_code == 200, reply.text
                values = reply.json()["results"][0]["values"]
                assert [values[ref] for ref in refs] == [live, 6, 2]
                listed = httpx.get(f"{url}/v1/features/listening@2", trust_env=False)
                assert listed.status_code == 200, listed.text
