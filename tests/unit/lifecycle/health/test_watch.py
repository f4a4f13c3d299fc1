"""A watch tells all that lasted, each by itself, and gives time to what starts: no longer than a
start may take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from slicewise.features import own
from slicewise.lifecycle.health.judge import Health, Limits
from slicewise.lifecycle.health.overview import health_of
from slicewise.lifecycle.health.watch import Watch
from slicewise.stores.online.redis.status import StoreStatus

NOW, SECOND = 1_700_000_000_000_000, 1_000_000
LIMITS = Limits(heartbeat_age_us=30 * SECOND)
STREAM = {"state": "running", "lag": 0, "tail": "on"}
UNIT = {"view": "songs", "source": "plays", "storage_fingerprint": "a" * 16}
PLAIN: Mapping[str, Any] = {"sources": [{"name": "plays"}], "units": [UNIT]}
LEADERBOARDS: Mapping[str, Any] = {**PLAIN, "leaderboards": [{"view": "songs"}]}
PROBED: Mapping[str, Any] = {**PLAIN, "sources": [*PLAIN["sources"], {"name": own.SOURCE}]}


def status(at_us: int, **more: object) -> str:
    return json.dumps(STREAM | {"heartbeat_us": at_us} | more)


def health(now_us: int, manifest: Mapping[str, Any] = LEADERBOARDS, **parts: str) -> Health:
    """Stream, real-time lane and prober speak unless `parts` has other words for them; an empty
    text: they never spoke."""
    probes = {
        "state": "running",
        "heartbeat_us": now_us,
        "shown": 300,
        "lost": 0,
        "waiting_ms": 1.0,
    }
    well = {
        "stream:plays": status(now_us),
        "tail:plays": status(now_us),
        f"stream:{own.SOURCE}": status(now_us, tail="off"),
    }
    statuses = {
        **well,
        "probes": json.dumps(probes),
        **{k.replace("_", ":"): text for k, text in parts.items()},
    }
    return health_of(
        StoreStatus(now_us, {}, manifest, {k: v for k, v in statuses.items() if v}), LIMITS
    )


def looks(watch: Watch, *healths: Health, now_us: int = NOW) -> Watch:
    for component in healths:
        watch = watch.after(component, now_us)
    return watch


# ------------------------------------------------------------------ several reasons
def late(now_us: int = NOW) -> str:
    return json.dumps(
        {"state": "running", "heartbeat_us": now_us, "shown": 1, "lost": 0, "waiting_ms": 90_000.0}
    )


def test_late_probes_are_told_as_late_probes_also_while_the_real_time_lane_is_lost() -> None:
    both = health(NOW, PROBED, tail_plays=status(NOW - 61 * SECOND), probes=late())
    watch = looks(Watch(4), both, both, both, both)
    assert watch.outcome == "aging"
    assert watch.reported(both) == {
        "tail": ("plays: no heartbeat for 61 s",),
        "probes": ("a probe is in no answer for 90 s",),
    }


def test_a_real_time_lane_that_was_away_for_one_look_is_not_paged_with_late_probes() -> None:
    one, both = (
        health(NOW, PROBED, probes=late()),
        health(NOW, PROBED, tail_plays=status(NOW - 61 * SECOND), probes=late()),
    )
    watch = looks(Watch(4), one, one, one, both)
    assert watch.outcome == "aging"
    assert list(watch.reported(both)) == ["probes"]


def test_a_lost_stream_hides_neither_a_lost_real_time_lane_nor_what_is_not_published() -> None:
    old = status(NOW - 61 * SECOND)
    all_of_it = health(NOW, stream_plays=old, tail_plays=old, emit_plays=old)
    watch = looks(Watch(4, well_once=True), *[all_of_it] * 4)
    assert watch.outcome == "lost"
    assert set(watch.reported(all_of_it)) == {"stream", "emission", "tail"}


def test_what_is_not_published_alone_is_not_told_of_the_stream() -> None:
    ill = health(NOW, emit_plays=status(NOW, state="failed", last_error="no room"))
    assert ill.reasons == ("emission: plays: the driver gave up: no room",)
    assert looks(Watch(4, well_once=True), *[ill] * 4).reported(ill) == {
        "emission": ("plays: the driver gave up: no room",)
    }


def test_parts_that_are_ill_in_turn_lose_the_stream_and_are_told() -> None:
    stream, emission = (
        health(NOW, stream_plays=""),
        health(NOW, emit_plays=status(NOW, state="failed")),
    )
    watch = looks(Watch(2, well_once=True), stream, emission)
    assert watch.outcome == "lost"
    assert list(watch.reported(emission)) == ["emission"]


# ------------------------------------------------------------------ what starts
def after_apply(seconds: float, **parts: str) -> Health:
    """The first leaderboard was deployed at NOW; so long after it nothing was published by a driver
    yet."""
    return health(int(NOW + seconds * SECOND), LEADERBOARDS, **{"deployed": str(NOW)} | parts)


def watched(
    *, ensured: float | None, until: float, spoke: float | None = None
) -> list[tuple[float, Watch]]:
    """One look every five seconds, from an hour of a stream that was well."""
    watch, seen = looks(Watch(4), *[health(NOW, PLAIN)] * 3), []
    for step in range(int(until / 5)):
        now = 5.0 * step
        parts = (
            {}
            if ensured is None or now < ensured
            else {"ensured_emit": str(int(NOW + ensured * SECOND))}
        )
        if spoke is not None and now >= spoke:
            parts["emit_plays"] = status(int(NOW + now * SECOND))
        watch = watch.after(after_apply(now, **parts), int(NOW + now * SECOND))
        seen.append((now, watch))
        if watch.over:
            break
    return seen


def test_a_first_leaderboard_fails_no_watch_while_its_driver_starts() -> None:
    seen = watched(ensured=4.0, spoke=60.0, until=600.0)
    assert not any(watch.over for _, watch in seen)
    assert seen[-1][1].outcome == "well"


def test_a_driver_that_never_speaks_is_lost_once_it_had_time_to_start() -> None:
    at, watch = watched(ensured=4.0, until=600.0)[-1]
    assert watch.outcome == "lost"
    assert 124 < at < 124 + 5 * 5
    assert watch.reported(after_apply(at)) == {
        "emission": ("plays: no driver has written a status",)
    }


def test_a_driver_that_nobody_starts_ends_the_watch_well_so_that_the_next_run_starts_it() -> None:
    at, watch = watched(ensured=None, until=600.0)[-1]
    assert (watch.outcome, watch.reported(after_apply(at))) == ("wanting", {})
    assert at < 30


@pytest.mark.parametrize("driver", ["emit", "tail", "stream"])
def test_the_words_of_the_driver_before_are_not_those_of_one_that_starts(driver: str) -> None:
    stopped = status(NOW - SECOND, state="stopped")
    parts = {f"{driver}_plays": stopped, f"started_{driver}": str(NOW)}
    manifest = LEADERBOARDS if driver == "emit" else PLAIN
    starting = health(NOW + 30 * SECOND, manifest, **parts)
    assert not starting.reasons
    assert not starting.aging
    assert (*starting.starting, *starting.warming) != ()
    assert starting.well == (driver == "tail")
    later = health(NOW + 121 * SECOND, manifest, **parts)
    assert later.reasons or later.aging or later.stopped


def test_a_driver_that_fails_after_its_start_has_no_grace() -> None:
    failed = status(NOW + SECOND, state="failed", last_error="no room")
    parts = {"emit_plays": failed, "started_emit": str(NOW), "deployed": str(NOW)}
    assert health(NOW + 2 * SECOND, LEADERBOARDS, **parts).reasons == (
        "emission: plays: the driver gave up: no room",
    )


def test_a_prober_that_starts_is_not_late() -> None:
    starting = health(NOW + 5 * SECOND, PROBED, probes="", deployed=str(NOW))
    assert (starting.aging, starting.unensured) == ((), True)
    assert health(NOW + 121 * SECOND, PROBED, probes="", deployed=str(NOW)).aging
