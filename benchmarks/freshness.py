"""An event's delay until it is in an HTTP answer, at steady loads: real-time lane, micro-batch lane
and usual recipe in one run.

    make bench-freshness [BENCH="--rates 2000 --only real-time lane micro-batch lane --json FILE --doc docs/benchmarks/freshness.md"]
    make bench-freshness BENCH=--away     the store stands still for half a minute, then dies and comes back
    make bench-freshness BENCH=--hot      one user and a view of all get 20,000 events/s
    make bench-freshness BENCH=--busy     hours are compacted and answers checked beside

Producer, broker, drivers, store, API and probes share this machine. See benchmarks/whole/probes.py
for what a probe is. With all rates it takes 50 minutes, nearly all of it measuring. Figures are
kept where --json says, and an interrupted run (Ctrl-C) shows them; another run goes on from it
(--go-on).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import freshness_away, freshness_busy, freshness_hot
from benchmarks.freshness_sides import (
    MICROBATCH,
    ONE,
    REALTIME,
    RECIPE,
    Measured,
    Request,
    Side,
    sides,
)
from benchmarks.whole import machine
from benchmarks.whole.document import keep, publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import notify, pair
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings

SIDES = (RECIPE, MICROBATCH, REALTIME)
"""In this order: the recipe begins where its topic does, and would take longer to catch up with
what the others got."""
OTHERS = {MICROBATCH: "micro-batch lane alone", ONE: "one driver"}
SECONDS, BESIDE_S = 600.0, 180.0
"""Seconds of each rate: of the real-time lane, and of what it is compared with."""
QUANTILES = ("p50", "p90", "p99", "p999", "worst")
AIMED_AT = 2_000.0
BOUNDS: Mapping[float, Mapping[str, float]] = {
    AIMED_AT: {"p50": 5.0, "p99": 50.0, "worst": 500.0},
    10_000.0: {"p99": 100.0},
}
"""Events a second -> milliseconds with the real-time lane."""


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 where an event was lost or counted twice; a missed aim is told, figures are no
    test."""
    given = _parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    facts: Mapping[str, Any] = machine.facts(redis_server.binary(Settings.load()))
    if facts["noisy"]:
        notify(
            f"the machine is busy (load {facts['load_1m_5m_15m'][0]}): these figures will be too"
        )
    begun = time.monotonic()
    overrides = dict(override.split("=", 1) for override in given.set)
    lost = seconds = 0
    if given.away:
        rate = given.rates[0] if given.rates else AIMED_AT
        figures, details, lost = freshness_away.run(
            overrides, rate, given.ways, given.seconds or 60.0
        )
    elif given.busy:
        rate = given.rates[0] if given.rates else AIMED_AT
        figures, details, lost = freshness_busy.run(overrides, rate, given.seconds or 120.0)
    elif given.hot:
        figures, details = freshness_hot.run(overrides, given.seconds or 60.0)
    else:
        steady = Steady(given, facts)
        complete = steady.run(overrides)
        figures, details, seconds = steady.figures(), steady.details(), steady.seconds()
        facts = steady.facts
        if not complete:
            publish(
                "make bench-freshness",
                arguments,
                given,
                facts,
                seconds,
                figures,
                details,
                doc=False,
            )
            return 130
    seconds = seconds or round(time.monotonic() - begun)
    publish("make bench-freshness", arguments, given, facts, seconds, figures, details)
    return 1 if lost else 0


@dataclass
class Steady:
    """Every side under every load; what is measured already is kept at each step."""

    given: argparse.Namespace
    facts: Mapping[str, Any]
    measured: dict[tuple[str, float], Measured] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.given.go_on is not None:
            before = json.loads(self.given.go_on.read_text(encoding="utf-8"))
            measured = (Measured(**figures) for figures in before["details"]["measured"])
            self.measured = {
                (measured_one.side, measured_one.rate): measured_one for measured_one in measured
            }
            self.begun -= before["seconds"]
            self.facts = before["machine"]

    @property
    def rates(self) -> list[float]:
        return self.given.rates or [500.0, 2_000.0, 10_000.0]

    def run(self, overrides: Mapping[str, str]) -> bool:
        """Measures; whether it was not interrupted. KeyboardInterrupt where that was before the
        first figure."""
        try:
            with pair("plays", overrides) as (stack, recipe, logs):
                for side in sides(self.given.only or SIDES, stack, recipe, logs):
                    left = [rate for rate in self.rates if (side.name, rate) not in self.measured]
                    if not left:
                        continue
                    notify(f"{side.name}: starting")
                    with side.up():
                        for rate in left:
                            self._measure(side, rate)
        except KeyboardInterrupt:
            if not self.measured:
                raise
            notify("interrupted: what was measured until then follows")
            return False
        return True

    def _measure(self, side: Side, rate: float) -> None:
        seconds = self.given.seconds or SECONDS
        if side.name != REALTIME and self.given.only != [side.name]:
            seconds = min(seconds, self.given.beside)
        notify(
            f"{side.name} at {rate:,.0f} events/s: {seconds:.0f} s from "
            f"{time.strftime('%H:%M:%S')} on"
        )
        self.measured[side.name, rate] = side.run(
            Request(rate, seconds, min(15.0, seconds / 2), self.given.probes)
        )
        keep(self.given, self.facts, self.seconds(), self.figures(), self.details())

    def seconds(self) -> int:
        """Since it began."""
        return round(time.monotonic() - self.begun)

    def figures(self) -> list[Figure]:
        """Figures of the loads under which anything was measured."""
        measured = {rate for _, rate in self.measured}
        return [
            figure
            for rate in self.rates
            if rate in measured
            for figure in compared(rate, self.measured)
        ]

    def details(self) -> dict[str, Any]:
        """All that was measured."""
        return {"measured": [asdict(measured_one) for measured_one in self.measured.values()]}


def compared(rate: float, results: Mapping[tuple[str, float], Measured]) -> list[Figure]:
    """The real-time lane (or what was measured without it) beside the recipe; the micro-batch lane,
    and one driver for both, as others."""
    ours = next(
        (results[side, rate] for side in (REALTIME, MICROBATCH, ONE) if (side, rate) in results),
        None,
    )
    theirs = results.get((RECIPE, rate))
    if ours is None:
        ours, theirs = theirs, None
    assert ours is not None
    beside = {
        OTHERS[side]: results[side, rate]
        for side in OTHERS
        if (side, rate) in results and side != ours.side
    }
    section = (
        f"{'produce → answer' if ours.side == REALTIME else ours.side} at {rate:,.0f} events/s"
    )

    def figure(name: str, unit: str, of: str, key: str, bound: float | None = None) -> Figure:
        def value(side: Measured | None) -> float | None:
            if side is None:
                return None
            values: Mapping[str, float] = (
                side.seen["freshness"] if of == "freshness" else getattr(side, of)
            )
            return values.get(key)

        others = {name: value(side_result) or 0.0 for name, side_result in beside.items()}
        return Figure(
            section, name, unit, value(ours) or 0.0, value(theirs), bound=bound, others=others
        )

    seconds_by_side = {name: side_result.seconds for name, side_result in beside.items()}
    measured = Figure(
        section,
        "measured for",
        "s",
        ours.seconds,
        theirs.seconds if theirs else None,
        others=seconds_by_side,
    )
    bounds = BOUNDS.get(rate, {}) if ours.side == REALTIME else {}
    figures = [measured]
    figures += [
        figure(_named(quantile), "ms", "freshness", quantile, bounds.get(quantile))
        for quantile in QUANTILES
    ]
    sides = (ours, theirs, *beside.values())
    present = dict.fromkeys(name for side in sides if side is not None for name in side.cores)
    figures += [figure(f"{name}, processor", "cores", "cores", name) for name in present]
    figures += [
        figure(f"{name}, memory", "MiB", "memory_mib", name) for name in present if name != "probes"
    ]
    steps, answers = ours.seen["resolution"], ours.seen["answer"]
    figures.append(
        Figure(
            section,
            "step of the probes' questions, p50",
            "ms",
            steps["p50"],
            others={"p99": steps["p99"]},
        )
    )
    return [
        *figures,
        Figure(section, "one question, p50", "ms", answers["p50"], others={"p99": answers["p99"]}),
    ]


def _named(quantile: str) -> str:
    return "p99.9" if quantile == "p999" else quantile


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "freshness", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rates", type=float, nargs="+", help="events per second (500 2000 10000)")
    parser.add_argument(
        "--seconds",
        type=float,
        help="of each rate (600); of --busy (120); of --hot and after --away (60)",
    )
    parser.add_argument(
        "--beside", type=float, default=BESIDE_S, help="at most, of what it is compared with (180)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=(*SIDES, ONE), help="sides; one: both lanes in one driver"
    )
    parser.add_argument("--probes", type=float, default=10.0, help="probes per second")
    parser.add_argument("--away", action="store_true", help="the store goes away under a load")
    ways = list(freshness_away.WAYS)
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, help="of --away")
    parser.add_argument("--busy", action="store_true", help="compactions and checks run beside")
    parser.add_argument("--hot", action="store_true", help="one user gets nearly all events")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="settings, as in the environment"
    )
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--go-on",
        type=Path,
        metavar="JSON",
        help="what an interrupted run has is not measured again",
    )
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
