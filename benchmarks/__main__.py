"""Measures slicewise and the recipe that people use today, on real servers, in one run.

  make bench                                 everything, about a quarter of an hour
  make bench-fast                            the same, small: that it works, not how fast
  make bench BENCH="--only streaming --json figures.json"

Prints one JSON object, then the same as a table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.whole import history, machine, streaming, windows
from benchmarks.whole.document import render, write_doc
from benchmarks.whole.figures import Figure
from benchmarks.whole.options import Options
from benchmarks.whole.servers import notify
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings

SECTIONS: Mapping[str, Callable[[Options], tuple[list[Figure], dict[str, Any]]]] = {
    "streaming": streaming.run,
    "serving": history.run,
    "windows": windows.run,
}


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 also where an aim is missed: figures are no test."""
    given = _parse(arguments)
    options = Options.quick() if given.quick else Options()
    for name in ("seconds", "events"):
        if getattr(given, name) is not None:
            options = replace(options, **{name: getattr(given, name)})
    facts = machine.facts(redis_server.binary(Settings.load()))
    if facts["noisy"]:
        notify(
            f"the machine is busy (load {facts['load_1m_5m_15m'][0]}): these figures will be too"
        )
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    begun = time.monotonic()
    for name in given.only or SECTIONS:
        section_figures, details[name] = SECTIONS[name](options)
        figures += section_figures
    took = round(time.monotonic() - begun)
    result = {
        "machine": facts,
        "options": asdict(options),
        "seconds": took,
        "figures": [figure.to_json() for figure in figures],
        "details": details,
    }
    text = json.dumps(result)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    shown = render(facts, took, figures)
    print(f"\n{shown}")
    if given.doc:
        write_doc(given.doc, shown, "make bench", arguments)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--seconds", type=float, help="of each timed measurement")
    parser.add_argument("--events", type=int, help="in the backlog")
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS))
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
