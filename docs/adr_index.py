"""The list of decision records, made from each record's title and its line `Status: …`.

    python docs/adr_index.py            rewrite docs/adr/README.md
    python docs/adr_index.py --check    fail where the page is not what this makes of today's records

A record begins with `# NUMBER. CLAIM`, an empty line and its status: `accepted`,
`superseded by [00NN](FILE)` or `partly superseded by [00NN](FILE)`, several separated by commas.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "adr"
PAGE = FOLDER / "README.md"
HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<claim>[^\n]+)\n\n"
    r"Status: (?P<status>accepted|(?:partly )?superseded) ?(?:by (?P<by>[^\n]+))?\n\n"
)
LINK = re.compile(r"\[(?P<number>\d{4})\]\((?P<file>[^)]+)\)")
ABOUT = """# Decision records

A record says why something is as it is, and what would break it. `python docs/adr_index.py` writes
this page from the records' titles and status. Numbers are given once, and some were never given.
A record that is *partly superseded* says in its text, or its successor does, what of it holds.
"""


class RecordError(ValueError):
    """A record's first lines are not as the index needs them."""


@dataclass(frozen=True)
class Record:
    """One record, as its first lines describe it."""

    file: str
    number: int
    claim: str
    status: str
    superseded_by: tuple[tuple[int, str], ...]
    """Number and file of each record that took this one's place."""


def parse(file: str, text: str) -> Record:
    """The record of a file. Raises RecordError for first lines of another form."""
    head = HEAD.match(text)
    if head is None:
        raise RecordError(
            f"{file}: begin with `# NUMBER. CLAIM`, an empty line, `Status: …`, an empty line"
        )
    number = int(head["number"])
    if not file.startswith(f"{number:04d}-"):
        raise RecordError(f"{file}: its title has number {number}")
    by = tuple((int(link["number"]), link["file"]) for link in LINK.finditer(head["by"] or ""))
    if bool(by) != (head["status"] != "accepted"):
        raise RecordError(
            f"{file}: a superseded record names its successor as [00NN](FILE), no other does"
        )
    return Record(file, number, head["claim"], head["status"], by)


def records() -> list[Record]:
    """All records of the folder, by number."""
    files = sorted(path for path in FOLDER.glob("*.md") if path != PAGE)
    return [parse(path.name, path.read_text(encoding="utf-8")) for path in files]


def page(listed: Sequence[Record]) -> str:
    """The index of these records."""
    rows = [
        f"| [{record.number:04d}]({record.file}) | {record.claim} | {record.status} | "
        + ", ".join(f"[{number:04d}]({file})" for number, file in record.superseded_by)
        + " |"
        for record in listed
    ]
    table = ["| number | claim | status | superseded by |", "|---|---|---|---|", *rows]
    return f"{ABOUT}\n" + "\n".join(line.replace("|  |", "| |") for line in table) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    made = page(records())
    if arguments.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
            print(
                "docs/adr/README.md is not what the records say now: python docs/adr_index.py",
                file=sys.stderr,
            )
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
