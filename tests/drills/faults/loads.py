"""More than usual: events that a driver is behind by, of one entity, of a million."""

from __future__ import annotations

import time

from tests.drills.stage.run import Run
from tests.drills.stage.scene import MICROBATCH, REALTIME
from tests.e2e.payments import SHOPS

_BURST = 10_000
"""Events of the hour before now that are produced at once: what a driver is behind by that stood
still for long."""
_HOT = 1_000
_MANY_KEYS = 1_000_000
_MANY, _AT_ONCE = 300_000, 50_000
"""Cards, each with keys of its own in four views and an event list."""
_MANY_ENTITIES = 10


def microbatch_behind(run: Run) -> None:
    with run.still(run.scene.tree(MICROBATCH)):
        run.scene.feed.burst(_BURST)
        run.some(8, 12)
    run.whole(time.monotonic())


def realtime_behind(run: Run) -> None:
    with run.still(run.scene.tree(REALTIME)):
        run.scene.feed.burst(_BURST)
        run.scene.await_applied()
        run.some(1, 3)
    run.whole(time.monotonic())


def hot_card(run: Run) -> None:
    """Nine of ten events are of one card, for ten seconds."""
    for _ in range(10):
        run.scene.feed.hot(_HOT)
        time.sleep(1.0)
    run.whole(time.monotonic())


def many_keys(run: Run) -> None:
    """A million keys, of cards which nobody has asked for yet; some of them are asked for then."""
    scene = run.scene
    begun = time.monotonic()
    for first in range(0, _MANY, _AT_ONCE):
        scene.feed.many(first, _AT_ONCE)
        scene.await_applied()
    run.whole(begun)
    with scene.operator() as client:
        key_count = client.dbsize()
    assert key_count >= _MANY_KEYS, f"the store has {key_count} keys"
    by_card = [
        question for question in scene.watch.questions if "card" in dict(question.unit.entity)
    ]
    for _ in range(_MANY_ENTITIES):
        for question in by_card:
            card = f"key-{run.rng.randrange(_MANY)}"
            key = tuple(
                card if name == "card" else run.rng.choice(SHOPS)
                for name, _ in question.unit.entity
            )
            assert scene.watch.request(question, key) is not None, (
                f"{question.unit.view} {key} is refused"
            )
