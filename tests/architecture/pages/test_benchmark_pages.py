"""The page that is read in a minute says what the raw runs say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
SHORT = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"\| (?P<what>[^|]+) \| (?P<figure>[^|]+) \| (?P<aim>[^|]*)\| (?P<beside>[^|]*)\| (?P<raw>[^|]+) \|"
)
RAW = re.compile(r"\[`(?P<command>make [\w-]+)`\]\((?P<page>benchmarks/\w+\.md)#[\w-]+\)")
NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
UNMEASURED = "not measured yet"


@dataclass(frozen=True)
class Row:
    what: str
    figure: str
    aim: str
    beside: str
    command: str
    page: str

    @property
    def numbers(self) -> set[str]:
        """Numbers of the figure, its aim and what stands beside it, without explanations in
        brackets."""
        return set(
            NUMBER.findall(" ".join((self.figure, self.aim, re.sub(r"\(.*\)", "", self.beside))))
        )


def rows() -> list[Row]:
    table = [line for line in SHORT.splitlines() if line.startswith("|")][2:]
    results = []
    for line in table:
        cells = ROW.fullmatch(line)
        assert cells, line
        raw = RAW.fullmatch(cells["raw"])
        assert raw, line
        results.append(
            Row(
                *(cells[name].strip() for name in ("what", "figure", "aim", "beside")),
                *raw.groups(),
            )
        )
    return results


def block(page: str, command: str) -> list[str]:
    """The lines that the command wrote in the page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    begin = (
        re.escape(f"<!-- begin: written by `{command}")
        + r"(?: [^`]*)?` -->\n```\n(.*?)\n```\n<!-- end -->"
    )
    result = re.findall(begin, text, re.DOTALL)
    assert len(result) == 1, (page, command)
    return str(result[0]).splitlines()


def sections(lines: list[str]) -> list[tuple[str, str]]:
    """Lines of figures, with the heads of their tables."""
    head, result = "", []
    for line in lines:
        if line and not line.startswith(" "):
            head = line
        result.append((head, line))
    return result


def test_the_page_is_read_in_a_minute() -> None:
    assert 10 <= len(rows()) <= 20
    assert len(SHORT.splitlines()) <= 40


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.what)
def test_each_figure_stands_in_one_line_of_its_raw_run(row: Row) -> None:
    lines = block(row.page, row.command)
    if row.figure == UNMEASURED:
        assert lines == [UNMEASURED], "it was measured: bring the short page to it"
        return
    assert NUMBER.fullmatch(row.figure)
    holding = [
        line
        for head, line in sections(lines)
        if row.numbers <= set(NUMBER.findall(f"{line} {_aim(head)}"))
    ]
    assert len(holding) == 1, (row, holding)
    met = None if "met" not in row.aim else "not met" not in row.aim
    assert ("NOT MET" in holding[0]) == (met is False)
    assert (" met" in holding[0]) == (met is True), (
        "the raw run has an aim, the short page says another"
    )


def _aim(head: str) -> str:
    """The error that a table of errors declares for all its lines."""
    return declared[0] if (declared := re.findall(r"declared [\d.]+", head)) else ""


def test_every_raw_run_is_named() -> None:
    written = {
        (f"benchmarks/{page.name}", command)
        for page in (DOCS / "benchmarks").glob("*.md")
        for command in re.findall(
            r"<!-- begin: written by `(make [\w-]+)", page.read_text(encoding="utf-8")
        )
    }
    named = {(row.page, row.command) for row in rows()}
    assert named <= written
    assert written - named <= {
        ("benchmarks/aggregates.md", "make bench-reader"),
        ("benchmarks/aggregates.md", "make bench-levels"),
        ("benchmarks/operation.md", "make bench-build"),
        ("benchmarks/operation.md", "make bench-surge"),
        ("benchmarks/operation.md", "make bench-kept"),
        ("benchmarks/operation.md", "make bench-request-log"),
        ("benchmarks/training.md", "make bench-training"),
        ("benchmarks/backtest.md", "make show-backtest"),
    }


def test_a_command_is_told_to_write_into_the_page_that_has_its_marks() -> None:
    for page in (DOCS / "benchmarks").glob("*.md"):
        named = set(re.findall(r"--doc (docs/\S+?\.md)", page.read_text(encoding="utf-8")))
        assert named <= {f"docs/benchmarks/{page.name}"}
