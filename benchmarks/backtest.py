"""A model of flights' delays is judged on logged requests before it answers any.

  make show-backtest
  make show-backtest BENCH="--quick"                               two minutes of flights
  make show-backtest BENCH="--doc docs/benchmarks/backtest.md"

On a platform of its own: half a year of flights lies in the past, the rest comes live, a year in
eight hours. Model A (`delay`) is trained by what was known, and answers flights at the instants at
which they should leave. Its answers, its predictions and the labels are logged. Then the changed
definitions of examples/flights_risk/newer are applied, their versions are built, B (`delay_today`)
is trained on the days that A was trained on, and both are judged on the requests that A answered.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import skops.io
from sklearn.metrics import roc_auc_score

from benchmarks import flights_played
from benchmarks.backtest_page import HINDSIGHT, A, B, page
from benchmarks.whole import machine
from benchmarks.whole.document import write_doc
from benchmarks.whole.servers import HOME, notify, process
from slicewise.local.servers import redis as redis_server
from slicewise.replay.schedule import Pace
from slicewise.settings import Settings
from tests.support.platform.stack import Stack

EXAMPLE = HOME / "examples" / "flights_risk"
COMMAND = "make show-backtest"
SPEED = 1_095
"""The year in eight hours: twenty seconds are 6.1 hours of 2013, a day of 2013 is 79 seconds."""
SEED = 2013
NEW_YEAR_S = 1_356_998_400
"""2013-01-01T00:00 as if New York's clock were UTC."""
MATURE_S = 30.0
"""Seconds after which nearly every flight is known to have left: 9.1 hours of 2013."""
MARGIN_S = 3.0
"""Before the first spine row: the stream entered how far it was at least once."""
BLOCK_US = 20_000_000
"""Rows that stand or fall together when intervals are drawn: six hours of 2013."""
DRAWS = 1_000


@dataclass(frozen=True)
class Size:
    """Seconds of each part of the show, and the part of the year that lies in the past."""

    train_s: float = 180.0
    play_s: float = 300.0
    share: float = 0.5

    @staticmethod
    def quick() -> Size:
        """Enough to see that everything works: its figures say nothing."""
        return Size(train_s=70.0, play_s=50.0, share=0.505)


SPINE = (
    'sql:SELECT scheduled AS "at", carrier, origin, dest, CASE WHEN dep_delay > 15 THEN 1 ELSE 0 '
    "END AS late FROM flights WHERE dep_delay IS NOT NULL AND scheduled >= '{start}' "
    "AND scheduled < '{end}'"
)


class Show:
    """The parts of the show, each on what the ones before it left."""

    def __init__(self, folder: Path, size: Size) -> None:
        self.size = size
        self.project = folder / "project"
        shutil.copytree(EXAMPLE, self.project)
        overrides = {"SLICEWISE_REALTIME": "on", "SLICEWISE_KAFKA_PARTITIONS": "2"}
        self.stack = Stack(folder / "state", self.project, overrides)
        self.pace = Pace(SPEED, size.share)
        self.facts: dict[str, Any] = {}
        self.train_us = (0, 0)
        self.refs: dict[str, list[str]] = {}

    def begins(self) -> None:
        """Servers run, definitions are deployed."""
        notify("servers start")
        self.stack.up()
        self.stack.cli("apply", "--no-wait")

    def catches_up(self) -> None:
        """The stream has applied the past."""
        self.stack.start_stream()
        self.stack.wait_realtime(flights_played.TOPIC)
        self.stack.wait_applied(flights_played.TOPIC)

    def trains(self, name: str, features: str, knowledge: str) -> None:
        """Fits a model on the flights of the first part, by what was known, or by all that is."""
        notify(f"{name}: a training set by {knowledge}")
        start, end = (text_of(us) for us in self.train_us)
        out = self.project / f"{name}.parquet"
        self.stack.cli(
            *("dataset", "build", "--features", features, "--knowledge", knowledge),
            *("--out", str(out), "--spine", SPINE.format(start=start, end=end)),
            timeout_s=600,
        )
        table = pq.read_table(out)
        refs = [name for name in table.column_names if ":" in name]
        labels = np.asarray(table["late"].to_numpy(), np.float64)
        self.refs[name] = refs
        model = fit_function(self.project)(table.select(refs), labels, SEED)
        skops.io.dump(model, self.project / f"{name}.skops")
        self.facts[f"trained_{name}"] = len(labels)
        self.facts[f"rate_{name}"] = float(labels.mean())

    def plays(self) -> flights_played.Played:
        """Requests of A at scheduled instants, predictions and labels, for the second part."""
        settings = self.stack.settings
        loaded = skops.io.load(self.project / f"{A}.skops", trusted=["numpy.dtype"])
        refs = self.refs[A]

        def score(values: Mapping[str, Any]) -> float:
            row = [np.nan if values[ref] is None else float(values[ref]) for ref in refs]
            return float(loaded.predict_proba(np.array([row]))[0, 1])

        schedule = flights_played.schedule_of(
            settings.kafka_bootstrap, settings.kafka_partitions, self.pace
        )
        start_us = time.time_ns() // 1000 + 2_000_000
        end_us = start_us + round(self.size.play_s * 1e6)
        planned = flights_played.departures(schedule, start_us, end_us)
        notify(f"{len(planned):,} flights ask in {self.size.play_s:.0f} s")
        played = flights_played.play(
            settings.serving_url,
            settings.kafka_bootstrap,
            planned,
            "delay_risk",
            A,
            score,
            MATURE_S,
        )
        self.facts["live_from"] = day_of(schedule.base_us, start_us)
        self.facts["live_to"] = day_of(schedule.base_us, end_us)
        self.facts["train_from"], self.facts["train_to"] = (
            day_of(schedule.base_us, us) for us in self.train_us
        )
        return played

    def changes(self) -> None:
        """The newer definitions are deployed beside the live ones, and built."""
        notify("the newer definitions: applied, and built")
        shutil.copy(self.project / "newer" / "features.py", self.project / "features.py")
        self.stack.cli("apply", "--no-wait", "--here", timeout_s=600)
        self.stack.start_stream()

    def judged(self, model: str, knowledge: str, *options: str) -> dict[str, Any]:
        """A backtest's report."""
        notify(f"{model} on logged requests, by {knowledge}")
        done = self.stack.cli(
            *("backtest", model, "--knowledge", knowledge, "--json", *options), timeout_s=600
        )
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def trains_and_plays(self) -> flights_played.Played:
        """The part that is live: A is trained on days that were watched, and answers the next."""
        start_us = time.time_ns() // 1000 + round(MARGIN_S * 1e6)
        notify(f"{self.size.train_s:.0f} s of flights to train on")
        time.sleep(self.size.train_s)
        self.train_us = (start_us, time.time_ns() // 1000 - round(MATURE_S * 1e6))
        self.stack.job("archive")  # a query reads what is archived, and archives nothing
        self.trains(A, "delay_risk", "arrival")
        return self.plays()


def fit_function(project: Path) -> Any:
    """The function `fit` of the project's train.py."""
    spec = importlib.util.spec_from_file_location("flights_risk_train", project / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fit


def text_of(us: int) -> str:
    """An instant as a query compares it."""
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat()


def day_of(base_us: int, us: int) -> str:
    """The instant of 2013, New York's standard time, that a compressed one stands for."""
    real_s = (us - base_us) / 1e6 * SPEED
    return datetime.fromtimestamp(NEW_YEAR_S + real_s, UTC).strftime("%d %B, %H:%M")


def run(size: Size) -> dict[str, Any]:
    """The whole show; its facts."""
    with TemporaryDirectory(prefix="slicewise-show-") as name:
        folder = Path(name)
        show = Show(folder, size)
        try:
            show.begins()
            replay = [str(show.stack.settings.platform_python.parent / "slicewise"), "replay"]
            replay += ["--speed", str(SPEED), "--share", str(size.share)]
            with process(replay, show.stack.settings.to_env(), folder / "replay.log"):
                show.catches_up()
                played = show.trains_and_plays()
                show.stack.job("archive")
                show.changes()
                show.trains(B, "delay_risk@2", "arrival")
                show.trains(HINDSIGHT, "delay_risk@2", "event_time")
                rows = folder / "rows.parquet"
                beside = ("--beside", A)
                reports = {
                    (B, "arrival"): show.judged(B, "arrival", *beside, "--out", str(rows))
                } | {
                    (model, knowledge): show.judged(model, knowledge, *beside)
                    for model, knowledge in (
                        (B, "event_time"),
                        (HINDSIGHT, "event_time"),
                        (HINDSIGHT, "arrival"),
                    )
                }
                table = pq.read_table(rows)
        finally:
            show.stack.down()
        return {
            **show.facts,
            "requests": played.requests,
            "failed": played.failed,
            "predictions": played.predictions,
            "labels": played.labels,
            "late_ms": np.percentile(np.array(played.late_us) / 1e3, (50, 99)).round(1).tolist(),
            "reports": {f"{model} {knowledge}": one for (model, knowledge), one in reports.items()},
            "intervals": intervals(table),
        }


Doubles = npt.NDArray[np.float64]


def intervals(rows: pa.Table) -> dict[str, dict[str, list[float]]]:
    """Measures of A, of B and of their difference, each with the bounds that hold 95 % of draws.

    Drawn are six hours of 2013 at a time, with replacement: flights of one hour share its weather.
    """
    rows = rows.filter(pc.is_valid(rows["label"]))
    labels, a, b = (np.asarray(rows[n].to_numpy()) for n in ("label", "score_a", "score_b"))
    blocks = np.asarray(rows["answered_at"].cast(pa.int64()).to_numpy()) // BLOCK_US
    members = [np.flatnonzero(blocks == block) for block in np.unique(blocks)]
    chance = np.random.default_rng(SEED)
    drawn = []
    for _ in range(DRAWS):
        picked = chance.integers(len(members), size=len(members))
        drawn.append(_compared(labels, a, b, np.concatenate([members[i] for i in picked])))
    whole = _compared(labels, a, b, np.arange(len(labels)))
    return {
        measure: {
            side: [
                whole[measure][side],
                *np.nanpercentile([d[measure][side] for d in drawn], (2.5, 97.5)),
            ]
            for side in whole[measure]
        }
        for measure in whole
    }


def _compared(
    labels: Doubles, a: Doubles, b: Doubles, rows: npt.NDArray[np.int64]
) -> dict[str, dict[str, float]]:
    compared = {}
    of_a, of_b = (_measured(labels[rows], one[rows]) for one in (a, b))
    for measure in of_a:
        compared[measure] = {
            A: of_a[measure],
            B: of_b[measure],
            "difference": of_b[measure] - of_a[measure],
        }
    return compared


def _measured(labels: Doubles, scores: Doubles) -> dict[str, float]:
    auc = roc_auc_score(labels, scores) if len(np.unique(labels)) == 2 else math.nan
    likely = np.clip(np.where(labels == 1, scores, 1 - scores), 1e-15, 1)
    return {
        "area under the curve": float(auc),
        "logarithmic loss": float(-np.log(likely).mean()),
        "Brier score": float(((scores - labels) ** 2).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        "show-backtest", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="two minutes of flights: that it works"
    )
    parser.add_argument("--json", type=Path, help="also write all figures there")
    parser.add_argument("--doc", type=Path, help="also write them between the marks of this page")
    given = parser.parse_args()
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    shown = run(Size.quick() if given.quick else Size())
    shown = {"machine": facts, "seconds": round(time.monotonic() - begun), **shown}
    if given.json:
        given.json.write_text(json.dumps(shown) + "\n", encoding="utf-8")
    text = page(shown)
    sys.stdout.write(f"{text}\n")
    if given.doc and not given.quick:
        write_doc(given.doc, text, COMMAND, sys.argv[1:])


if __name__ == "__main__":
    main()
