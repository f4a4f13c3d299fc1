"""A leaderboard under a steady load of plays: how old it is whenever somebody looks, and that its
rows are the raw log's.

    python -m benchmarks.leaderboard [--rate 20000] [--seconds 30] [--songs 100000] [--late correct] [--json FILE]

Redis, Kafka, the stream, the emission and the load run on this machine as people run them; the
leaderboard is read over the store's own connection every 20 ms. Age is the store's time minus the
end of the leaderboard's window, at every look.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.whole.servers import TOPIC, cpu_by_program, notify, pid_of, process, until
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.local.servers import stream
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.keys import entity_tags
from slicewise.stores.online.operations.leaderboards import ReadLeaderboard
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from tests.support.platform.stack import Stack, stack

S = 1_000_000
LOOK_S = 0.02
WANTED_S = 2.0
CATCH_UP_S = 60.0
"""Seconds of waiting for a first young leaderboard; where there is none, what is measured is a
stream that is behind."""
HOME = Path(__file__).resolve().parents[1]


@dataclass
class Looks:
    """Every look at the leaderboard. ages in seconds; first_seen: of each leaderboard when it was
    seen first."""

    ages: list[float] = field(default_factory=list)
    first_seen: list[float] = field(default_factory=list)
    missing: int = 0
    ends: set[int] = field(default_factory=set)
    leaderboards: dict[int, StoredLeaderboard] = field(default_factory=dict)

    def look(self, store: OnlineStore) -> None:
        leaderboard_read = store.run(ReadLeaderboard("top_songs"))
        if leaderboard_read.leaderboard is None:
            self.missing += 1
            return
        leaderboard = StoredLeaderboard.unpack(leaderboard_read.leaderboard)
        age = (leaderboard_read.time_us - leaderboard.end_us) / S
        self.ages.append(age)
        if leaderboard.end_us not in self.ends:
            self.ends.add(leaderboard.end_us)
            self.first_seen.append(age)
        self.leaderboards[leaderboard.end_us] = leaderboard


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90, p99 and the worst."""
    if not values:
        return {}
    at_quantiles = np.quantile(np.array(values), (0.5, 0.9, 0.99, 1.0))
    return {
        name: round(float(value), 3)
        for name, value in zip(("p50", "p90", "p99", "worst"), at_quantiles, strict=True)
    }


@contextmanager
def project(late: str) -> Iterator[Path]:
    """The songs project, with late= as asked."""
    with TemporaryDirectory(prefix="slicewise-leaderboard-") as folder:
        text = (HOME / "examples" / "songs" / "features.py").read_text()
        declared = 'every="1s", owner="music")'
        assert declared in text
        target = Path(folder)
        (target / "features.py").write_text(
            text.replace(declared, f'every="1s", owner="music", late="{late}")')
        )
        (target / "slicewise.toml").write_text('name = "songs"\ndefinitions = "features.py"\n')
        yield target


def differences(
    stack: Stack, leaderboards: Mapping[int, StoredLeaderboard], most: int = 20
) -> tuple[int, int]:
    """Leaderboards compared with a count of the raw log below their offset vector, and how many
    differ; the last ones."""
    raw = stack.records(TOPIC)
    partitions = np.array([partition for _, partition, *_ in raw], np.int64)
    offsets = np.array([offset for _, _, offset, *_ in raw], np.int64)
    plays = [json.loads(value) for *_, value in raw]
    times = np.array([play["played_at"] for play in plays], np.int64)
    compared = wrong = 0
    for end_us in sorted(leaderboards)[-most:]:
        leaderboard = leaderboards[end_us]
        below = {
            partition: offset
            for (_, partition), offset in leaderboard.offset_vector.offsets.items()
        }
        bound = np.array([below.get(p, 0) for p in range(int(partitions.max()) + 1)], np.int64)[
            partitions
        ]
        inside = np.flatnonzero(
            (offsets < bound) & (times >= leaderboard.start_us) & (times < end_us)
        )
        counts = Counter(plays[i]["song_id"] for i in inside)
        best = sorted(
            counts.items(),
            key=lambda item: (-item[1], entity_tags(leaderboard.columns, [[item[0]]])[0]),
        )
        compared += 1
        wrong += [(row.key[0], row.value) for row in leaderboard.rows] != best[
            : len(leaderboard.rows)
        ]
    return compared, wrong


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    overrides = {"SLICEWISE_KAFKA_PARTITIONS": str(options.partitions)}
    with project(options.late) as folder, stack(folder, overrides) as running:
        running.up("redis", "kafka")
        running.cli("apply", "--no-wait")
        running.start_stream()
        settings = running.settings
        logs = settings.state_dir / "logs"
        argv = [
            str(settings.platform_python.parent / "slicewise"),
            "load",
            "--topic",
            TOPIC,
            "--seed",
            "11",
        ]
        argv += ["--rate", str(options.rate), "--songs", str(options.songs)]
        # outlives the looks: it is ended with them
        argv += ["--seconds", str(options.warm_up + options.seconds + CATCH_UP_S + 60)]
        looks, store = Looks(), open_store(settings.redis_url)
        notify("waiting for stream and emission")
        for name in (stream.NAME, stream.EMIT):
            until(lambda name=name: _reads(running, name), f"the query of {name}", 180)  # type: ignore[misc]
        with process(argv, settings.to_env(), logs / "load.log"):
            notify("waiting for the first leaderboard")
            until(
                lambda: store.run(ReadLeaderboard("top_songs")).leaderboard is not None,
                "the first leaderboard",
                120,
            )
            caught_up = _caught_up(store)
            time.sleep(options.warm_up)
            pids = [pid_of(running, name) for name in ("redis", "stream", stream.EMIT)]
            before, begun = cpu_by_program(pids), time.perf_counter()
            produced = _offsets(running)
            notify(f"looking for {options.seconds} s")
            while time.perf_counter() - begun < options.seconds:
                looks.look(store)
                time.sleep(LOOK_S)
            seconds = time.perf_counter() - begun
            rate = (_offsets(running) - produced) / seconds
            cores = {
                k: round((v - before.get(k, 0.0)) / seconds, 2)
                for k, v in cpu_by_program(pids).items()
            }
            lag = _lag(running)
        store.close()
        running.stop_stream()
        notify("comparing leaderboards with the raw log")
        compared, wrong = differences(running, looks.leaderboards) if options.compare else (0, 0)
    ends = sorted(looks.ends)
    whole = (ends[-1] - ends[0]) // S + 1 if ends else 0
    return {
        "rate_wanted": options.rate,
        "rate_produced": round(rate),
        "seconds": round(seconds, 1),
        "songs": options.songs,
        "late": options.late,
        "leaderboards": len(ends),
        "leaderboards_left_out": whole - len(ends),
        "looks": len(looks.ages),
        "looks_without_a_leaderboard": looks.missing,
        "age_s": quantiles(looks.ages),
        "age_when_first_seen_s": quantiles(looks.first_seen),
        "within_two_seconds": round(
            sum(age <= WANTED_S for age in looks.ages) / max(1, len(looks.ages)), 4
        ),
        "caught_up_before": caught_up,
        "load_of_the_machine": [round(load, 2) for load in os.getloadavg()],
        "events_not_applied_at_the_end": lag,
        "cores": cores,
        "leaderboards_compared": compared,
        "leaderboards_that_differ": wrong,
    }


def _reads(running: Stack, name: str) -> bool:
    """Tells whether a driver's query over the plays runs."""
    sources: dict[str, Any] = stream.driver_status(running.settings, name).heartbeat.get(
        "sources", {}
    )
    return bool(sources.get(TOPIC, {}).get("state") == "running")


def _caught_up(store: OnlineStore) -> bool:
    """Tells whether leaderboards became young: what came while processes warmed up is behind
    them."""
    deadline = time.monotonic() + CATCH_UP_S
    while time.monotonic() < deadline:
        leaderboard_read = store.run(ReadLeaderboard("top_songs"))
        if (
            leaderboard_read.leaderboard is not None
            and leaderboard_read.time_us
            - StoredLeaderboard.unpack(leaderboard_read.leaderboard).end_us
            <= WANTED_S * S
        ):
            return True
        time.sleep(LOOK_S)
    return False


def _offsets(running: Stack) -> int:
    with KafkaLog(running.settings.kafka_bootstrap) as log:
        return sum(log.latest(TOPIC).offsets.values())


def _lag(running: Stack) -> dict[str, Any]:
    beats = {
        name: stream.driver_status(running.settings, name).heartbeat
        for name in ("stream", stream.EMIT)
    }
    return {name: beat.get("sources", {}).get(TOPIC, {}).get("lag") for name, beat in beats.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=20_000, help="plays a second")
    parser.add_argument(
        "--seconds", type=float, default=30, help="how long the leaderboard is looked at"
    )
    parser.add_argument(
        "--warm-up",
        type=float,
        default=10,
        help="seconds after the first leaderboard that are not counted",
    )
    parser.add_argument("--songs", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--late", choices=("ignore", "correct"), default="ignore")
    parser.add_argument(
        "--no-compare", dest="compare", action="store_false", help="do not count the raw log"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here too")
    options = parser.parse_args()
    outcome = measure(options)
    text = json.dumps(outcome, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")
    met = (
        outcome["age_s"]
        and outcome["age_s"]["p99"] <= WANTED_S
        and outcome["rate_produced"] >= 0.98 * options.rate
    )
    print(
        f"a leaderboard at most {WANTED_S:.0f} s old at {options.rate:,.0f} plays/s: "
        f"{'met' if met else 'NOT MET'} (p99)"
    )
    return 1 if outcome["leaderboards_that_differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
