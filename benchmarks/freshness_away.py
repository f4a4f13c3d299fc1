"""A store that stands still, or dies and comes back, under a load: nothing is lost, and how long
until all is fresh.

Every user's count is compared with the raw log at the end; a difference ends the run with exit
code 1.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.freshness_sides import REALTIME, Request, listening, our_drivers, realtime_is
from benchmarks.whole import probes
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import PROJECTS, TOPIC, load, measure, notify, pid_of
from slicewise.local.servers import supervisor
from tests.support.platform.stack import Stack, stack

USERS = 5_000
BEFORE_S, AWAY_S = 15.0, 30.0
WARM_UP_S = 5.0
FRESH_MS = 100.0
"""All is fresh again once probes in a row are within this."""
IN_A_ROW = 20
REQUEST_AT_ONCE = 250
QUIET_S = 20.0
"""Between two absences: what the first one held up has settled."""


@dataclass(frozen=True)
class Absence:
    """Absence of the store as the probes saw it. Seconds since the store was back.

    first: until the first answer; caught_up: until every probe of the absence was in an answer;
    fresh: until probes were within FRESH_MS, IN_A_ROW of them."""

    how: str
    away_s: float
    first: float
    caught_up: float
    fresh: float
    never: int


def judged(
    how: str, gone: float, back: float, freshness: Sequence[tuple[float, float]], lost: int
) -> Absence:
    """Judges an absence. each: (when due, seconds; freshness, ms), as they were due. RuntimeError
    where it never was fresh again."""
    shown = [(due, due + late / 1000) for due, late in freshness]
    after = [at for _, at in shown if at >= back]
    during = [at for due, at in shown if gone <= due < back]
    good = [late <= FRESH_MS for _, late in freshness]
    since = [i for i, (due, _) in enumerate(freshness) if due >= back]
    first_good = next(
        (i for i in since if all(good[i : i + IN_A_ROW]) and len(good) >= i + IN_A_ROW), None
    )
    if first_good is None or not after:
        raise RuntimeError(f"{how}: not fresh again while it was probed after the store was back")
    return Absence(
        how,
        round(back - gone, 3),
        round(min(after) - back, 3),
        round(max([back, *during]) - back, 3),
        round(max(0.0, shown[first_good][1] - back), 3),
        lost,
    )


def stops(stack: Stack) -> Callable[[], None]:
    """SIGSTOP; what brings it back."""
    pid = pid_of(stack, "redis")
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def dies(stack: Stack) -> Callable[[], None]:
    """SIGKILL: what was not in the append-only file yet is gone; what starts it from that file."""
    os.kill(pid_of(stack, "redis"), signal.SIGKILL)

    def back() -> None:
        supervisor.up(stack.settings, notify, only=["redis"])

    return back


WAYS: Mapping[str, Callable[[Stack], Callable[[], None]]] = {"stands still": stops, "dies": dies}


def run(
    overrides: Mapping[str, str], rate: float, ways: Sequence[str], after_s: float
) -> tuple[list[Figure], dict[str, Any], int]:
    """Figures, details, and how many events were lost or counted twice. after_s: how long it is
    probed afterwards."""
    absences: list[Absence] = []
    with stack(PROJECTS / "plays", overrides) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        with realtime_is(running, on=True), our_drivers(running):
            whole = len(ways) * (
                WARM_UP_S + BEFORE_S + AWAY_S + after_s + probes.PATIENCE_S + QUIET_S
            )
            logs = running.settings.state_dir / "logs"
            with load(running.settings, rate, whole, logs / "load.log", "--users", str(USERS)):
                for number, how in enumerate(ways):
                    absences.append(absence(running, how, f"{REALTIME}{number}-", after_s))
                    notify(f"the store {how}: {asdict(absences[-1])}")
            running.wait_applied(TOPIC)
            missing, twice, events = compare(running)
    figures = []
    for gone in absences:
        section = f"the store {gone.how} for {gone.away_s:.0f} s at {rate:,.0f} events/s"
        figures += [
            Figure(section, "back → first answer", "s", gone.first),
            Figure(section, "back → all that came meanwhile", "s", gone.caught_up),
            Figure(section, f"back → within {FRESH_MS:.0f} ms again", "s", gone.fresh),
            Figure(section, "probes that never showed", "probes", gone.never, bound=0),
        ]
    figures.append(
        Figure("afterwards", "events lost", "events", missing, bound=0, others={"of": events})
    )
    figures.append(Figure("afterwards", "events counted twice", "events", twice, bound=0))
    return (
        figures,
        {"absences": [asdict(gone) for gone in absences]},
        missing + twice + sum(gone.never for gone in absences),
    )


def absence(running: Stack, how: str, prefix: str, after_s: float) -> Absence:
    """One, with probes before, meanwhile and after."""
    time.sleep(QUIET_S / 2)
    request = Request(0.0, BEFORE_S + AWAY_S + after_s, WARM_UP_S, 10.0, in_full=True)
    results: list[dict[str, Any]] = []

    def probe() -> None:
        spec = replace(listening(running.settings, prefix, request), in_full=True)
        results.append(
            measure(
                "probes", asdict(spec), request.warm_up_s + request.seconds + probes.PATIENCE_S + 30
            )
        )

    thread = threading.Thread(target=probe)
    thread.start()
    time.sleep(WARM_UP_S + BEFORE_S)
    gone = time.time()
    notify(f"the store {how}")
    come_back = WAYS[how](running)
    time.sleep(AWAY_S)
    come_back()
    back = time.time()
    notify("the store is back")
    thread.join()
    [seen] = results
    return judged(how, gone, back, [(due, late) for due, late in seen["samples"]], seen["lost"])


def compare(running: Stack) -> tuple[int, int, int]:
    """(events that no answer has, events that are counted twice, events in all), by user, against
    the raw log."""
    raw = Counter(json.loads(value)["user_id"] for *_, value in running.records(TOPIC))
    users = sorted(raw)
    missing = twice = 0
    for first in range(0, len(users), REQUEST_AT_ONCE):
        some = users[first : first + REQUEST_AT_ONCE]
        answer = running.request(
            features=["listening:plays_2h"], entities=[{"user_id": user} for user in some]
        )
        for user, result in zip(some, answer["results"], strict=True):
            off = int(result["values"]["listening:plays_2h"] or 0) - raw[user]
            missing, twice = missing + max(0, -off), twice + max(0, off)
    return missing, twice, sum(raw.values())
