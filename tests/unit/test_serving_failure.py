"""What a feature set declares for a failing store holds also for one that was emptied under the service."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.cover import Cover
from slicewise.errors import NotReady, StoreUnavailable
from slicewise.features.definitions import Project
from slicewise.features.plan import Deployment, plan
from slicewise.serving.answer import Answer
from slicewise.serving.connection import SyncConnection
from slicewise.serving.requests import checked
from slicewise.serving.service import FeatureService
from slicewise.stores.memory import MemoryServer, open_memory

TOPIC = "a" * 32


def deployment() -> Deployment:
    source = sw.KafkaSource("plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h")
    features = [sw.Feature("n", sw.count(), windows=["10s"])]
    view = sw.FeatureView("v", source=source, entity=["user"], features=features)
    refs = ["v:n_10s"]
    sets = [
        sw.FeatureSet("declared", features=refs, defaults={"n_10s": -1}, on_failure="default"),
        sw.FeatureSet("remembered", features=refs, on_failure="stale", max_staleness="10m"),
        sw.FeatureSet("strict", features=refs),
    ]
    return plan(Project.of("p", [view, *sets]))


def asked(service: FeatureService, connection: SyncConnection, name: str) -> Answer:
    return connection.run(service.read(checked(None, name, [{"user": "ada"}])))


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
