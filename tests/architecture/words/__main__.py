"""Counts retired words that are left, and lists where they stand.

python -m tests.architecture.words            counts per row
python -m tests.architecture.words WORD ...   where the words of these rows stand; `all` for all rows
python -m tests.architecture.words lower      writes numbers that fell into the table; exit code 1 where one rose
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from tests.architecture.words.occurrences import left
from tests.architecture.words.retired import TABLE, Retired

FILE = Path(__file__).with_name("retired.py")
LEFT = re.compile(r"\bleft=\d+")


def counts() -> str:
    """A line per row: counted, in the table, words, what replaces them."""
    lines = [f"{'now':>6} {'table':>6}  words"]
    for row in TABLE:
        words = ", ".join((*row.parts, *row.classes))
        lines.append(f"{len(left().get(row.title, ())):>6} {row.left:>6}  {words} -> {row.becomes}")
    return "\n".join(lines)


def listing(words: list[str]) -> str:
    """Lists where the rows with one of these words stand, and how often by name."""
    lines: list[str] = []
    for row in TABLE:
        if "all" in words or set(words) & {*row.parts, *row.classes}:
            rest = left().get(row.title, [])
            lines += map(str, rest)
            lines += [
                f"{n:>6}  {name}"
                for name, n in Counter(occurrence.named.name for occurrence in rest).most_common()
            ]
    return "\n".join(lines)


def lower() -> int:
    """Writes smaller numbers; the rows are those of the table, in its order."""
    now = [len(left().get(row.title, ())) for row in TABLE]
    risen = [row for row, n in zip(TABLE, now, strict=True) if n > row.left]
    numbers = iter(min(n, row.left) for row, n in zip(TABLE, now, strict=True))
    head, table = FILE.read_text(encoding="utf-8").split("TABLE: ", 1)
    FILE.write_text(
        head + "TABLE: " + LEFT.sub(lambda _: f"left={next(numbers)}", table), encoding="utf-8"
    )
    for row in risen:
        print(f"rose: {title(row)}")
    return 1 if risen else 0


def title(row: Retired) -> str:
    """The row with both numbers."""
    return f"{row.title}: {len(left().get(row.title, ()))} where the table has {row.left}"


if __name__ == "__main__":
    if sys.argv[1:] == ["lower"]:
        sys.exit(lower())
    print(listing(sys.argv[1:]) if sys.argv[1:] else counts())
