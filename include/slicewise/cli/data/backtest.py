"""judge a model on logged requests, beside the model that answered them

The answers of a request log go through a model of models.toml: a file of ONNX or skops, which run
no code of their own, or an HTTP endpoint. Labels that came to POST /v1/outcomes say what was true.
Where the model takes features that were answered then, it gets them as they were; others are
computed from the archive, by what had been applied at each request (--knowledge).

Shown are measures of both models over the same rows, whether their difference is more than chance,
in which slices the new one is worse, and what looks like a leak. --html writes a page with
pictures, --out the rows.

  slicewise backtest fraud_v4 --beside fraud_v3
  slicewise backtest fraud_v4 --beside fraud_v3 --start 2026-11-21T00:00:00Z --html fraud_v4.html
  slicewise backtest fraud_v4 --labels-until 2026-11-28T00:00:00Z --json --out rows.parquet
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.training.backtest.backtest import Backtest

_AT = "aware instant: 2026-11-21T08:00:00Z"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model of models.toml")
    parser.add_argument("--beside", default="", help="the model that answered the requests")
    parser.add_argument(
        "--scores",
        default="computed",
        choices=("computed", "sent"),
        help="of the model: made now, or as they were sent, by slicewise shadow too",
    )
    parser.add_argument("--log", help="the source of the request log, where there are several")
    parser.add_argument("--set", help="answers of this feature set, where several are logged")
    parser.add_argument("--start", help=f"answers logged from then on; {_AT}")
    parser.add_argument("--end", help=f"and before then; {_AT}")
    parser.add_argument("--labels-until", help=f"labels that came before then; {_AT}")
    parser.add_argument(
        "--knowledge",
        default="arrival",
        choices=("arrival", "event_time"),
        help="of features that were not answered then: what had been applied at each request, or "
        "all that is known now",
    )
    parser.add_argument("--no-archive", action="store_true", help="refuse what is not archived yet")
    parser.add_argument("--html", type=Path, help="also write a page with pictures there")
    parser.add_argument("--out", type=Path, help="also write the rows there, as Parquet")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.cli.pages import refuse_targets
    from slicewise.models.declared import chosen, load_models
    from slicewise.training.backtest.backtest import run_backtest
    from slicewise.training.tables.instants import instant_us

    def instant(text: str | None, where: str) -> int | None:
        return None if text is None else instant_us(text, where)

    refuse_targets(arguments, "html", "out")
    models = load_models(settings)
    model = chosen(models, arguments.model, "model")
    with bars(_notify, wanted=not arguments.json) as notify:
        outcome = run_backtest(
            settings,
            models,
            model,
            beside=arguments.beside,
            scores=arguments.scores,
            log=arguments.log,
            feature_set=arguments.set,
            start_us=instant(arguments.start, "--start") or 0,
            end_us=instant(arguments.end, "--end"),
            labels_until_us=instant(arguments.labels_until, "--labels-until"),
            knowledge=arguments.knowledge,
            archive=not arguments.no_archive,
            notify=notify,
        )
        _write(arguments, outcome)
    if arguments.json:
        print(json.dumps(outcome.to_json()))
    else:
        _show(outcome)
    return 0


def _write(arguments: argparse.Namespace, outcome: Backtest) -> None:
    from slicewise.training.api import parquet_bytes, put

    if arguments.html is not None:
        from slicewise.cli.data._backtest_page import page

        put(arguments.html, page(outcome).encode())
        _notify(f"written: {arguments.html}")
    if arguments.out is not None:
        put(arguments.out, parquet_bytes(outcome.rows))
        _notify(f"written: {arguments.out}")


def _show(outcome: Backtest) -> None:
    from slicewise.cli.data._backtest_page import measures, verdict, warnings
    from slicewise.cli.table import print_table

    print(f"{outcome.measured:,} of {outcome.requests:,} logged answers are measured")
    for reason, rows in outcome.left_out.items():
        print(f"  {rows:,} {reason}")
    for text in outcome.examples:
        print(f"    {text}")
    for text in warnings(outcome):
        print(f"WARNING: {text}")
    print()
    header = ("measure", outcome.model, *((outcome.beside,) if outcome.beside else ()))
    lines = [
        (words, _short(b), *((_short(a),) if outcome.beside else ()))
        for words, b, a in measures(outcome)
    ]
    print_table(header, lines)
    gain = outcome.gain
    if gain is not None:
        print(
            f"\n{verdict(outcome, gain)}: mean loss {gain.loss_b:.4g} beside {gain.loss_a:.4g}, a difference "
            f"of {gain.difference:.4g} ± {_short(gain.within)} (95 %, by {gain.entities:,} entities)"
        )
    if outcome.slices:
        print(f"\n{outcome.model} is worse for")
        print_table(
            ("rows with", "rows", "difference", "±"),
            [
                (
                    f"{one.column} = {one.value}",
                    f"{one.gain.rows:,}",
                    f"{one.gain.difference:.4g}",
                    _short(one.gain.within),
                )
                for one in outcome.slices
            ],
        )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _notify(line: str) -> None:
    print(f"backtest: {line}", file=sys.stderr, flush=True)
