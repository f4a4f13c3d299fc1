"""More than usual: events that a driver is behind by, of one entity, of a million."""

from __future__ import annotations

import time

from tests.drills.stage.run import Run
from tests.drills.stage.scene import FOLD, TAIL
from tests.e2e.payments import SHOPS

_BURST = 10_000
"""Events of the hour before now that are produced at once: what a driver is behind by that stood still for long."""
_HOT = 1_000
_MANY_KEYS = 1_000_000
_MANY, _AT_ONCE = 300_000, 50_000
"""Cards, each with keys of its own in four views and an event list."""
_MANY_ASKED = 10


def fold_behind(run: Run) -> None:
    with run.still(run.scene.tree(FOLD)):
        run.scene.feed.burst(_BURST)
        run.some(8, 12)
    run.whole(time.monotonic())


def tail_behind(run: Run) -> None:
    with run.still(run.scene.tree(TAIL)):
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
        found = client.dbsize()
    assert found >= _MANY_KEYS, f"the store has {found} keys"
    asked = [each for each in scene.watch.questions if "card" in dict(each.unit.entity)]
    for _ in range(_MANY_ASKED):
        for question in asked:
            card = f"key-{run.rng.randrange(_MANY)}"
            key = tuple(card if name == "card" else run.rng.choice(SHOPS) for name, _ in question.unit.entity)
            assert scene.watch.ask(question, key) is not None, f"{question.unit.view} {key} is refused"
