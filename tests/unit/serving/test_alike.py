"""Entities of one request that share a tag are read once, and each is answered as by itself."""

from __future__ import annotations

from typing import Any

import pytest

from slicewise.reading.exchange import TagRead
from slicewise.reading.shared import shared_tags
from slicewise.serving.answering.answer import Answer
from slicewise.serving.connection import connection as connections
from slicewise.stores.online.operations.reading import Read
from tests.support.inputs.seeds import seeds
from tests.unit.serving.test_pending import REFS, SLICED, World, bits

SIMPLE = [ref for ref in REFS if ref.partition(":")[0] in ("few", "ever", "all")]
"""Features of slices, none of which is of a session."""
ALIKE = ("ann", "bob", "ann", "nobody", "ann", "nobody", "bob")


def texts(answer: Answer) -> list[tuple[Any, ...]]:
    """All that an answer says of each entity."""
    return [
        (row, result.token, result.errors, result.bounds, result.no_data)
        for row, result in zip(bits(answer), answer.results, strict=True)
    ]


@pytest.mark.parametrize("to_come", [True, False], ids=["applied", "pending"])
@pytest.mark.parametrize("refs", [REFS, SLICED, SIMPLE], ids=["all", "slices", "simple"])
@pytest.mark.parametrize("seed", seeds(range(4)))
def test_each_is_answered_as_by_itself(refs: list[str], to_come: bool, seed: int) -> None:
    world = World(seed, to_come=to_come)
    for _ in range(3):  # read, seen again, cached
        single = [world.read(refs, (user,)) for user in ALIKE]
        together = world.read(refs, ALIKE)
        assert texts(together) == [text for answer in single for text in texts(answer)]
        events = [sum(s.pending_events for s in one.freshness) for one in (*single, together)]
        assert events[-1] == sum(events[:-1])
        assert bool(events[-1]) != to_come


def test_each_tag_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    tags: list[list[bytes]] = []
    perform = connections.SyncConnection._perform

    def performed(own: Any, request: Any) -> Any:
        if isinstance(request, Read) and request.reads:
            tags.append([read.tag for read in request.reads if isinstance(read, TagRead)])
        return perform(own, request)

    monkeypatch.setattr(connections.SyncConnection, "_perform", performed)
    world.read(SIMPLE, ALIKE)
    (read,) = tags
    assert len(read) == len(set(read)) == 3 + 2, "three users, two partitions of all"


def test_tags_that_differ_are_left_as_they_are() -> None:
    targets = [(0, 0, None), (0, 1, None), (1, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, 1)]
    assert shared_tags(targets, [b"a", b"b", b"a", b"b", b"a", b"b"], []) is None
    shared = shared_tags(targets, [b"a", b"b", b"c", b"c", b"c", b"c"], [0, 1, 2, 2, 2, 2])
    assert shared is not None
    assert shared.targets == [(0, 0, None), (0, 1, None), (1, 0, 0), (1, 0, 1)]
    assert (shared.tags, shared.nodes) == ([b"a", b"b", b"c", b"c"], [0, 1, 2, 2])
    assert shared.positions == [0, 1, 2, 2, 3, 3]
    assert shared.alike == {1: [0, 0]}, "of group 0 no two are alike"
