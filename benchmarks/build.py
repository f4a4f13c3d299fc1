"""Live freshness while a version of a view is built: without a build, unthrottled, and throttled.

  make bench-build
  make bench-build BENCH="--users 100 --seconds 20 --json figures.json"     small: that it works

A day and two hours of plays stand in the archive. Live events come at a fixed rate, and probes ask
for theirs over HTTP. Then a version of a view of ten partials is registered and built, once with
SLICEWISE_BUILD_FRESHNESS_MS=0 and once with a bound. Probes that were due while the job ran count.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.freshness_sides import Request, listening, our_drivers
from benchmarks.whole import machine, probes
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.history import HOURS, produce
from benchmarks.whole.servers import PROJECTS, TOPIC, load, measure, notify
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from tests.support.platform.stack import Stack

WITHOUT, UNTHROTTLED, THROTTLED = "no build", "unthrottled", "throttled"
WARM_UP_S = 10.0
JOB_S = 600.0
VIEW = """

wide = sw.FeatureView(
    "wide",
    source=plays,
    entity=["user_id"],
    slice="5m",
    where="seconds >= {least}",
    features=[
        sw.Feature("plays", sw.count(), windows=["1h", "1d"]),
        sw.Feature("seconds", sw.sum("seconds"), windows=["1h", "1d"]),
        sw.Feature("spread", sw.stddev("seconds"), windows=["1h", "1d"]),
        sw.Feature("shortest", sw.min("seconds"), windows=["1h", "1d"]),
        sw.Feature("longest", sw.max("seconds"), windows=["1h", "1d"]),
        sw.Feature("songs", sw.distinct_count("song_id"), windows=["1h", "1d"]),
    ],
)
"""


class Project:
    """A project whose view can be given another condition."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "slicewise.toml").write_text('definitions = "features.py"\n', encoding="utf-8")
        source = (PROJECTS / "plays" / "features.py").read_text(encoding="utf-8")
        self._base = source.replace(
            'timestamp="played_at",', 'timestamp="played_at",\n    max_lateness="2d",'
        )
        self.folder = folder
        self.change(0)

    def change(self, least: int) -> None:
        """Changes the definitions: the view is another version."""
        text = self._base + VIEW.format(least=least)
        (self.folder / "features.py").write_text(text, encoding="utf-8")


def run(given: argparse.Namespace) -> tuple[list[Figure], dict[str, Any], int]:
    """Figures, details, and how many probes never showed."""
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        project = Project(Path(folder) / "project")
        stack = Stack(Path(folder) / "ours", project.folder, {"SLICEWISE_REALTIME": given.realtime})
        try:
            stack.up()
            stack.cli("apply", "--no-wait")
            return _measured(stack, project, given)
        finally:
            stack.down()


def _measured(
    stack: Stack, project: Project, given: argparse.Namespace
) -> tuple[list[Figure], dict[str, Any], int]:
    notify(f"{HOURS} hours of plays of {given.users} users into the log")
    total = produce(stack, given.users)
    phases: dict[str, dict[str, Any]] = {}
    with our_drivers(stack):
        stack.wait_applied(TOPIC)
        notify("archiving them")
        stack.job("archive", timeout_s=JOB_S)
        for least, (phase, bound_ms) in enumerate(
            ((WITHOUT, None), (UNTHROTTLED, 0), (THROTTLED, given.bound)), 1
        ):
            phases[phase] = _phase(stack, project, given, least, bound_ms)
            notify(f"{phase}: {phases[phase]['freshness']}, {phases[phase]['built_s']:.1f} s")
    section = f"{given.rate:,.0f} live events/s, a version of {total:,} events built"
    figures = [
        Figure(
            section,
            f"freshness, {name}",
            "ms",
            phases[UNTHROTTLED]["freshness"][name],
            others={phase: phases[phase]["freshness"][name] for phase in (WITHOUT, THROTTLED)},
        )
        for name in ("p50", "p99", "worst")
    ]
    figures.append(
        Figure(
            section,
            "build",
            "s",
            round(phases[UNTHROTTLED]["built_s"], 1),
            others={THROTTLED: round(phases[THROTTLED]["built_s"], 1)},
        )
    )
    paced = phases[THROTTLED]["pace"]
    figures.append(
        Figure(
            section,
            "least share of its time at work",
            "",
            1.0,
            others={THROTTLED: round(paced["slowest"], 2)},
        )
    )
    return figures, {"events": total, "phases": phases}, sum(one["lost"] for one in phases.values())


def _phase(
    stack: Stack, project: Project, given: argparse.Namespace, least: int, bound_ms: int | None
) -> dict[str, Any]:
    """Freshness of the probes that were due during the build, and the build's seconds."""
    if bound_ms is not None:
        stack.given["SLICEWISE_BUILD_FRESHNESS_MS"] = str(bound_ms)
        project.change(least)
        # no Airflow runs here: the version is registered, and the job below builds it
        registered = stack.cli("apply", "--no-wait", check=False).stdout
        if "deployed: version" not in registered:
            raise RuntimeError(f"not deployed: {registered}")
    seen: dict[str, Any] = {}
    spec = listening(
        stack.settings, f"b{least}-", Request(given.rate, given.seconds, WARM_UP_S, 20.0, True)
    )
    whole = WARM_UP_S + given.seconds
    log = stack.settings.state_dir / "logs" / "load.log"

    def probe() -> None:
        seen.update(measure("probes", asdict(spec), whole + probes.PATIENCE_S + JOB_S))

    report: Mapping[str, Any] = {}
    with load(stack.settings, given.rate, whole + probes.PATIENCE_S, log):
        probing = threading.Thread(target=probe)
        probing.start()
        time.sleep(WARM_UP_S)
        begun, clock = time.time(), time.monotonic()
        if bound_ms is not None:
            report = stack.job("backfill", timeout_s=JOB_S)
        built_s = time.monotonic() - clock
        probing.join()
    if bound_ms is not None and not report["ready"]:
        raise RuntimeError(f"not ready: {report}")
    until = begun + built_s if bound_ms is not None else float("inf")
    late = sorted(ms for due, ms in seen["samples"] if begun <= due <= until)
    quantile = {"p50": late[len(late) // 2], "p99": late[int(len(late) * 0.99)], "worst": late[-1]}
    freshness = {name: round(value, 1) for name, value in quantile.items()}
    return {
        "freshness": freshness,
        "probes": len(late),
        "lost": int(seen["lost"]),
        "built_s": built_s if bound_ms is not None else 0.0,
        "pace": report.get("pace"),
    }


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 where a probe never showed; figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-build", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--rate", type=float, default=500.0, help="live events per second")
    parser.add_argument("--seconds", type=float, default=60.0, help="of probes in each phase")
    parser.add_argument("--bound", type=int, default=100, help="milliseconds of the throttled one")
    parser.add_argument("--realtime", choices=("on", "off"), default="on")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    figures, details, lost = run(given)
    seconds = round(time.monotonic() - begun)
    publish("make bench-build", arguments, given, facts, seconds, figures, details)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
