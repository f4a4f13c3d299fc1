"""run the main job: start everything, load the data, compact and check it through Airflow, and
leave it running

Every step looks first whether it is done: a second run finds what runs and changes nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the figures for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.local import main_job

    begun = time.monotonic()

    def notify(line: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {line}", flush=True, file=None)

    with bars(notify, wanted=not arguments.json) as shown:
        report = main_job.run(settings, shown)
    if arguments.json:
        print(json.dumps(dataclasses.asdict(report)))
    else:
        _table(report)
    return 0 if report.mismatches == 0 else 1


def _table(report: object) -> None:
    from rich.console import Console
    from rich.table import Table

    from slicewise.local.run_report import Report

    assert isinstance(report, Report)
    table = Table(title="slicewise", show_header=False)
    for name, value in (
        ("events in", f"{report.events_in:,}"),
        ("views", f"{report.views} with {report.features} feature columns"),
        ("hours compacted", str(report.hours_compacted)),
        ("values checked", f"{report.values_checked:,}"),
        ("mismatches", str(report.mismatches)),
        ("freshness p50 / p99", f"{_ms(report.freshness_p50_ms)} / {_ms(report.freshness_p99_ms)}"),
        *report.addresses.items(),
        ("this run", ", ".join(report.changed) or "changed nothing"),
    ):
        table.add_row(name, value)
    console = Console()
    console.print(table)
    if report.board:
        console.print(
            "played most in the last ten seconds:",
            ", ".join(f"{song} {n:g}" for song, n in report.board),
        )
    if report.example:
        console.print("one answer, to POST /v1/features with", markup=False)
        console.print_json(json.dumps(report.example["request"]), indent=None)
        answer = report.example["answer"]
        shown = answer["results"][0]["values"] if report.example["status"] == 200 else answer
        console.print_json(json.dumps(shown))


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
