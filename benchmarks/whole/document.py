"""A measurement stands in a document between marks that name the command which wrote it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.whole.figures import Figure, table

END = "<!-- end -->"
_FILES = ("--json", "--go-on")


def render(facts: Mapping[str, Any], seconds: float, figures: Sequence[Figure]) -> str:
    """The machine in a line, then the table."""
    load = facts["load_1m_5m_15m"]
    line = (
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['redis']}; "
        f"load at the start {load[0]} {load[1]} {load[2]}{' (NOISY)' if facts['noisy'] else ''}; {seconds} s in all"
    )
    return f"{line}\n\n{table(figures)}"


def publish(
    command: str,
    arguments: Sequence[str],
    given: argparse.Namespace,
    facts: Mapping[str, Any],
    seconds: int,
    figures: Sequence[Figure],
    details: Mapping[str, Any] | None = None,
    *,
    doc: bool = True,
) -> None:
    """Prints the figures as one JSON object and as a table. Writes either where --json and --doc
    ask for it. doc: whether the measurement is whole, as a document must have it."""
    document = keep(given, facts, seconds, figures, details)
    shown = render(facts, seconds, figures)
    sys.stdout.write(f"{json.dumps(document)}\n\n{shown}\n")
    if given.doc and doc:
        write_doc(given.doc, shown, command, arguments)


def keep(
    given: argparse.Namespace,
    facts: Mapping[str, Any],
    seconds: int,
    figures: Sequence[Figure],
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes the figures as JSON where --json asks for it, in one step; them."""
    document = {
        "machine": facts,
        "seconds": seconds,
        "figures": [figure.to_json() for figure in figures],
    }
    if details is not None:
        document["details"] = dict(details)
    if given.json:
        part = given.json.with_suffix(".part")
        part.write_text(json.dumps(document) + "\n", encoding="utf-8")
        part.replace(given.json)
    return document


def write_doc(file: Path, shown: str, command: str, arguments: Sequence[str] = ()) -> None:
    """Puts the output between the marks of this command, whatever options it had when it wrote
    there last."""
    text = file.read_text(encoding="utf-8")
    begin = re.search(rf"<!-- begin: written by `{re.escape(command)}(?: [^`]*)?` -->", text)
    end = text.find(END, begin.end()) if begin else -1
    if begin is None or end < 0:
        raise SystemExit(
            f"{file}: no marks to write between: <!-- begin: written by `{command}` --> and {END}"
        )
    options_given = _without_json(arguments)
    options = f' BENCH="{" ".join(options_given)}"' if options_given else ""
    block = f"<!-- begin: written by `{command}{options}` -->\n```\n{shown}\n```\n{END}"
    file.write_text(text[: begin.start()] + block + text[end + len(END) :], encoding="utf-8")


def _without_json(arguments: Sequence[str]) -> list[str]:
    """The arguments for another machine: where the JSON went or came from here is nobody's
    concern."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and not argument.startswith(_FILES):
            kept.append(argument)
        skip = argument in _FILES
    return kept
