"""type a query: see its rows over a local file or the archive, its Python form, and its plan

A query is a SELECT with features; CREATE FEATURE VIEW name AS before it makes it a definition,
which `slicewise apply` serves continuously. Its rows are computed as training sets are, with the
bits that are served: a row per event (of events up to and including it), per window that ends, or,
with --at, per entity. Times without --start and --end: the whole file, or the last hour that is
archived.

  slicewise sql "SELECT carrier, avg(dep_delay) OVER (PARTITION BY carrier ORDER BY SLICE(scheduled)
                 RANGE BETWEEN INTERVAL '3' HOUR PRECEDING AND CURRENT ROW) AS delay_3h FROM flights"
  slicewise sql views.sql --over plays.parquet            Parquet, CSV or JSON lines, in place of the archive
  slicewise sql views.sql --over plays.csv --at 2026-11-21T08:00:00Z
  slicewise sql views.sql --definition                    the same in Python, and what the plan would be
  slicewise sql                                           type statements, each with ; at its end

Sources are those of the project, CREATE SOURCE in the text, or the columns of the file.
docs/reference/sql.md says more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slicewise.settings import Settings

_AT = "aware instant: 2026-11-21T08:00:00Z"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "query", nargs="?", help="SQL, or a file *.sql (default: standard input, or a prompt)"
    )
    parser.add_argument(
        "--over", type=Path, metavar="FILE", help="events: .parquet, .csv, .json, .jsonl, .ndjson"
    )
    parser.add_argument(
        "--project", help="folder of slicewise.toml (default: found upwards from here)"
    )
    parser.add_argument("--at", help=f"one row per entity at this instant ({_AT})")
    parser.add_argument("--start", help=f"rows from here on ({_AT})")
    parser.add_argument("--end", help=f"rows up to here ({_AT})")
    parser.add_argument("--limit", type=int, default=20, help="rows to show, 0: all (default: 20)")
    parser.add_argument(
        "--definition", action="store_true", help="show the Python form and the plan, no rows"
    )
    parser.add_argument("--json", action="store_true", help="for programs: one object per query")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.define._query import Session

    session = Session.of(arguments, settings)
    if arguments.query is None and sys.stdin.isatty():
        return session.prompt()
    if arguments.query is None:
        session.run(sys.stdin.read(), "standard input")
    elif Path(arguments.query).suffix == ".sql":
        session.run_file(Path(arguments.query))
    else:
        session.run(arguments.query, "the query")
    return 0
