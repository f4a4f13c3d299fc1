"""compare two versions of a view: what each answers of every entity, value by value

Both are computed from the archive at one instant, for all entities with events in a window, so a
version can be compared before its history is built, and no reader waits for it. Values are
compared as bits. `psi` says how far the values of a feature moved as a whole: below 0.1 they lie
alike, above 0.25 they do not.

  slicewise diff by_card@2                         with the live version, an hour ago
  slicewise diff by_card@1 by_card@2 --at 2026-11-20T12:00:00Z
  slicewise diff by_card@2 --html by_card.html     a page with a picture for each feature
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.cli.table import print_table
from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.training.versions.difference import Difference


LONGEST = 40
"""Characters of a value that is shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="one or two, as by_card@2")
    parser.add_argument("--at", help="instant with offset (default: the last archived hour's end)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures")
    parser.add_argument("--json", action="store_true", help="print the outcome for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    import sys

    from slicewise.cli.pages import refuse_targets
    from slicewise.errors import BadRequest
    from slicewise.features.plan.deployment import base_of, version_of
    from slicewise.training.versions.comparing import compare

    names = arguments.versions
    if len(names) > 2:
        raise BadRequest(
            f"{len(names)} versions are named",
            where="diff",
            expected="one or two, as by_card@2 or by_card@1 by_card@2",
            next_step="name two of them",
        )
    if (len(names) == 1 and version_of(names[0]) is None) or len(set(names)) < len(names):
        raise BadRequest(
            f"{' '.join(names)} names one version",
            where="diff",
            expected="a version that is not live, as by_card@2, or two versions",
            next_step="slicewise show says which versions of a view there are",
        )
    refuse_targets(arguments, "html")
    then, now = names if len(names) == 2 else (base_of(names[0]), names[0])

    def notify(line: str) -> None:
        if not arguments.json:
            sys.stderr.write(f"diff: {line}\n")

    outcome = compare(settings, then, now, arguments.at, notify)
    if arguments.html is not None:
        from slicewise.cli.define._difference_page import page
        from slicewise.training.api import put

        put(arguments.html, page(outcome).encode())
        notify(f"written: {arguments.html}")
    if arguments.json:
        print(json.dumps(outcome.to_json(), default=str))
    else:
        _show(outcome)
    return 0


def _show(outcome: Difference) -> None:
    from slicewise.training.tables.instants import text_of

    at = text_of(outcome.at_us)
    print(f"{outcome.then} and {outcome.now} at {at}, of {outcome.rows:,} entities\n")
    head = ("feature", "compared", "equal", "changed", "null then", "null now", "psi")
    print_table(
        head,
        [
            (
                one.column,
                f"{one.rows:,}",
                f"{one.equal:,}",
                f"{one.changed:,}",
                f"{one.null_then:,}",
                f"{one.null_now:,}",
                f"{one.index:.3f}",
            )
            for one in outcome.columns
        ],
    )
    for what, columns in (
        (f"{outcome.then} alone has", outcome.gone),
        (f"{outcome.now} alone has", outcome.added),
        ("of other types", outcome.retyped),
    ):
        if columns:
            print(f"{what}: {', '.join(columns)}")
    rows = [
        (one.column, json.dumps(example.entity, default=str), *map(_short, values))
        for one in outcome.columns
        for example in one.examples[:1]
        for values in [(example.then, example.now)]
    ]
    if rows:
        print()
        print_table(("feature", "entity", outcome.then, outcome.now), rows)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
