"""What is answered at the edges is what was asked for: by definition, by token and by window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slicewise.clock import ManualClock
from slicewise.cover import Cover
from slicewise.errors import BeyondRetention, NotReady, StoreUnavailable
from slicewise.serving.answer import Answer, EntityAnswer
from slicewise.serving.catalog import Catalog
from slicewise.serving.connection import SyncConnection
from slicewise.serving.fallback import LastKnown
from slicewise.serving.requests import Entity, checked
from slicewise.serving.service import FeatureService
from slicewise.stores.memory import MemoryServer, open_memory
from tests.support.in_memory import TOPIC, asked, deploy, deployment, world


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
    _, server, gone, service, connection = world(deployment())
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
    _, _, gone, service, connection = world(deployment())
    token = asked(service, connection, "remembered").results[0].token
    assert asked(service, connection, "declared", token).flags == ()
    gone.away = True
    connection.close()
    for name in ("remembered", "declared"):
        assert asked(service, connection, name).flags != ()
        with pytest.raises(StoreUnavailable):
            asked(service, connection, name, token)


def test_a_live_window_beyond_what_is_kept_speaks_of_the_window_and_the_clocks() -> None:
    clock, _, _, _, connection = world(deployment())
    behind = FeatureService(ManualClock(clock.now_us() - 86_400_000_000))
    with pytest.raises(BeyondRetention) as refused:
        asked(behind, connection, "strict")
    assert refused.value.where == "live window of v:n_10s"
    assert "the window of v:n_10s starts at 2023-11-13T" in refused.value.what
    assert "2023-11-14T22:13:20Z" in (refused.value.expected or "")
    assert "clocks" in (refused.value.next_step or "")


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
