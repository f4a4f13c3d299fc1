"""No name has a retired word: the table says what replaces it, and how many places are still to be
cut."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.architecture.words.occurrences import (
    ROOT,
    Named,
    all_occurrences,
    left,
    names_of,
    occurrences,
)
from tests.architecture.words.retired import TABLE, Kept, Retired

SAMPLE = '''
class HotLedger:
    """The ledger in prose is not looked at, nor is "ledger" in a text."""

    def read(self, the_ledger: str) -> str:
        log.warning("ledger_lost", count=1)
        return f"{self.SLICEWISE}" + os.environ["SETTING"]

    metric = Counter(f"{PREFIX}_ledgers_read", "Ledgers read", ["ledger_id"])
'''.replace(
    "SETTING", "SLICEWISE" + "_LEDGER_URL"
)  # a variable's name is looked for in any text, this one's too
JAVA = """
/** The ledger in prose. */
final class Reader {
  private final long hotLedger = "ledger".length(); // ledger
}
"""
PAGE = """
# The ledger of a store

A ledger in prose, and `read_ledger(at)` in a code span.

```python
ledger = 1
```
"""


def of(path: str, text: str) -> list[tuple[int, str, str]]:
    """(line, kind, name) of the word that is planted in all samples."""
    row = Retired("committed offsets", ("ledger", "ledgers"))
    return sorted(
        (one.named.line, one.named.kind, one.named.name)
        for one in occurrences(names_of(path, text), (row,))
    )


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.title)
def test_a_retired_word_stands_in_no_name_but_where_the_table_counts_it(row: Retired) -> None:
    rest = left().get(row.title, [])
    shown = "\n".join(map(str, rest[:20]))
    assert len(rest) <= row.left, (
        f"{len(rest)} where {row.left} were left; say {row.becomes!r}:\n{shown}"
    )
    assert len(rest) == row.left, (
        f"{row.title}: {len(rest)} are left of {row.left}: python -m tests.architecture.words lower"
    )


def test_a_planted_word_is_found_in_python() -> None:
    assert of("include/slicewise/sample.py", SAMPLE) == [
        (2, "name", "HotLedger"),
        (5, "name", "the_ledger"),
        (6, "log event", "ledger_lost"),
        (7, "setting", "SLICEWISE" + "_LEDGER_URL"),
        (9, "metric", "_ledgers_read"),
        (9, "metric", "ledger_id"),
    ]


def test_a_planted_word_is_found_in_java() -> None:
    assert of("include/slicewise/jvm/Reader.java", JAVA) == [(4, "name", "hotLedger")]


def test_a_planted_word_is_found_in_headings_and_code_spans_of_docs() -> None:
    assert of("examples/sample.md", PAGE) == [
        (2, "heading", "ledger"),
        (4, "code span", "read_ledger"),
    ]


def test_a_planted_word_is_found_in_the_name_of_a_file() -> None:
    assert of("include/slicewise/stores/hot_ledger.py", "") == [(1, "file", "hot_ledger")]


def test_what_is_found_says_file_line_word_and_replacement() -> None:
    (occurrence,) = occurrences(
        [Named("hot_ledger", "dags/a.py", 7, "name")], (Retired("committed offsets", ("ledger",)),)
    )
    assert str(occurrence) == "dags/a.py:7: 'ledger' in name 'hot_ledger': committed offsets"


def test_ordinary_words_are_allowed_in_sentences_and_others_are_not() -> None:
    names = [
        Named("test_few_of_the_ledger", "tests/a.py", 1, "name", sentence=True),
        Named("few", "tests/a.py", 2, "name"),
    ]
    table = Retired("scalar", ("few",), english=True), Retired("committed offsets", ("ledger",))
    assert [(one.named.line, one.word) for one in occurrences(names, table)] == [
        (1, "ledger"),
        (2, "few"),
    ]


def test_a_class_is_retired_by_its_whole_name() -> None:
    names = [
        Named(name, "include/a.py", 1, "name") for name in ("Base", "BaseModel", "base", "_Base")
    ]
    assert [
        one.named.name for one in occurrences(names, (Retired("node claims", classes=("Base",)),))
    ] == ["Base"]


@pytest.mark.parametrize(
    ("row", "kept"),
    [(row, kept) for row in TABLE for kept in row.kept],
    ids=lambda value: value.title if isinstance(value, Retired) else ",".join(value.names),
)
def test_no_exception_is_stale(row: Retired, kept: Kept) -> None:
    names = [occurrence.named for occurrence in all_occurrences() if occurrence.row is row]
    assert kept.reason
    assert all(
        any(Kept((name,), kept.paths, "").fits(named.name, named.path) for named in names)
        for name in kept.names
    )
    assert all(
        any(Kept(kept.names, (path,), "").fits(named.name, named.path) for named in names)
        for path in kept.paths
    )


def test_a_word_stands_in_one_row() -> None:
    words = Counter(word for row in TABLE for word in (*row.parts, *row.classes))
    assert not [word for word, n in words.items() if n > 1]


def test_what_the_page_of_words_calls_older_is_in_the_table() -> None:
    page = (
        (ROOT / "docs" / "concepts.md")
        .read_text(encoding="utf-8")
        .partition("## Words the code still has")[2]
    )
    older = [
        re.sub(r"\(.*?\)", "", line.split("|")[1])
        for line in page.splitlines()
        if line.startswith("| ")
    ][2:]
    words = {word for row in TABLE for word in (*row.parts, *row.classes)}
    missing = {
        word
        for cell in older
        for word in re.split(r"[,\s]+", cell)
        if word and not {word, word.lower(), word.title()} & words
    }
    assert not missing
