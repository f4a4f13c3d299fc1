"""A build looks how late live events are, and rests by what it sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from slicewise.errors import BadRequest, StoreUnavailable
from slicewise.lifecycle.pacing.shares import FLOOR, UNMEASURED, Freshness
from slicewise.spark.lake import backfill
from slicewise.spark.lake.pace import Pace

if TYPE_CHECKING:
    from slicewise.spark.lake.context import Context


def test_it_slows_down_and_recovers_with_what_it_sees() -> None:
    seen = iter([Freshness(9_000.0, "plays")] * 9 + [Freshness(9.0, "plays")] * 11)
    pace = Pace(1_000, lambda: next(seen))
    for _ in range(9):
        pace.step()
    assert pace.share == pace.slowest == FLOOR
    assert "9.0 s (plays)" in pace.reason
    for _ in range(11):
        pace.step()
    assert (pace.share, pace.slowed, pace.reason) == (1.0, False, "")
    assert pace.slowest == FLOOR


def test_events_of_micro_batches_have_a_bound_of_their_own() -> None:
    pace = Pace(1_000, lambda: Freshness(4_000.0, "plays", 10.0))
    pace.step()
    assert not pace.slowed


def test_it_rests_where_it_is_slowed_alone() -> None:
    pace = Pace(1_000, lambda: UNMEASURED)
    pace.rest(3_600.0)
    assert pace.rested_s == 0
    pace.share = 0.5
    pace.rest(0.02)
    assert pace.rested_s == 0.02


def test_the_end_of_a_build_ends_its_rest() -> None:
    pace = Pace(1_000, lambda: Freshness(9_000.0, "plays"), share=0.5)
    with pace.looking():
        pass
    begun = time.monotonic()
    pace.rest(20.0)
    assert time.monotonic() - begun < 1


def test_without_a_bound_nothing_is_looked_up() -> None:
    def look() -> Freshness:
        raise AssertionError("no look is due")

    with Pace(0, look).looking() as pace:
        assert not pace.slowed


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable("the store is away"),
        BadRequest("another version wrote it"),
        KeyError("state"),
        ValueError("no JSON"),
        TimeoutError("no answer"),
    ],
)
def test_a_look_that_fails_ends_no_build_and_is_told_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    looks = threading.Semaphore(0)
    seen = iter([Freshness(9_000.0, "plays")])

    def look() -> Freshness:
        looks.release()
        if (first := next(seen, None)) is not None:
            return first
        raise error

    pace = Pace(1_000, look)
    with pace.looking():
        assert looks.acquire(timeout=10)
    assert pace.slowed
    pace.step()
    pace.step()
    assert (pace.share, pace.reason) == (1.0, ""), "nobody is seen to wait"
    assert pace.unmeasured
    assert caplog.text.count("build_not_paced") == 1


def test_a_build_that_fails_waits_for_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest ends with the build, and the thread that rests holds its end up no longer."""
    pace = Pace(1_000, lambda: Freshness(9_000.0, "plays"))
    resting = threading.Event()

    @contextmanager
    def paced(_: object) -> Iterator[Pace]:
        with pace.looking():
            yield pace

    def begun(*given: Any) -> list[Any]:
        executor = next(one for one in given if isinstance(one, Executor))

        def rests() -> None:
            pace.share = 0.1
            resting.set()
            pace.rest(20.0)

        executor.submit(rests)
        assert resting.wait(10)
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(backfill, "_paced", paced)
    monkeypatch.setattr(backfill, "_begun", begun)
    context = SimpleNamespace(
        deployment=SimpleNamespace(declared=SimpleNamespace(units=())),
        metadata=SimpleNamespace(ready={}),
    )
    begins = time.monotonic()
    with pytest.raises(StoreUnavailable):
        backfill.backfill(cast("Context", context), None)
    assert time.monotonic() - begins < 10
