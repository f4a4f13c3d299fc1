"""Every link, anchor and cited page of the repository's texts leads to something that is in the
repository."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOPS = (
    ".ci",
    "benchmarks",
    "dags",
    "docs",
    "examples",
    "include",
    "plugins",
    "requirements",
    "spark_jobs",
    "tests",
)
TEXTS = {
    ".java",
    ".lua",
    ".md",
    ".mjs",
    ".py",
    ".html",
    ".sh",
    ".sql",
    ".toml",
    ".yaml",
    ".xml",
    "",
}
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
CITED = re.compile(r"(?<![\w/.])docs/(?P<page>[\w/-]+\.md)(?:#(?P<anchor>[\w-]+))?")
RECORD = re.compile(r"(?<![\w/.])docs/adr/(?P<number>\d{4})(?!\d)")
UNPUBLISHED = re.compile(r"\b(?:DESIGN|FACTS|HOUSE)\b|\bSTYLE\.md|\.\./shared|§")
SELF = Path(__file__).resolve()


def texts() -> list[Path]:
    """All of the repository's text files, by name."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for top in TOPS:
        paths += (path for path in (ROOT / top).rglob("*") if path.is_file())
    kept = (
        path
        for path in paths
        if path.suffix in TEXTS and not {"node_modules", "__pycache__"} & set(path.parts)
    )
    return sorted(path for path in kept if path != SELF and not path.name.startswith("."))


PAGES = [path for path in texts() if path.suffix == ".md"]


@lru_cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as repositories' pages make them."""
    seen: Counter[str] = Counter()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        seen[f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor] += 1
    return frozenset(seen)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if ":" in link["target"]:
            continue
        target = (page.parent / link["target"]).resolve() if link["target"] else page
        if not target.exists() or (link["anchor"] and link["anchor"] not in anchors(target)):
            broken.append(link[0])
    assert not broken


def test_every_cited_page_and_record_is_there() -> None:
    records = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("0*.md")}
    broken = []
    for path in texts():
        text = path.read_text(encoding="utf-8")
        for cited in CITED.finditer(text):
            page = ROOT / "docs" / cited["page"]
            if not page.exists() or (cited["anchor"] and cited["anchor"] not in anchors(page)):
                broken.append(f"{path.relative_to(ROOT)}: {cited[0]}")
        broken += (
            f"{path.relative_to(ROOT)}: {cited[0]}"
            for cited in RECORD.finditer(text)
            if cited[1] not in records
        )
    assert not broken


def test_nothing_cites_a_page_that_is_not_in_the_repository() -> None:
    results = {
        str(path.relative_to(ROOT)): UNPUBLISHED.findall(path.read_text(encoding="utf-8"))
        for path in texts()
    }
    assert {name: words for name, words in results.items() if words} == {}


def prose() -> list[Path]:
    """Pages whose lines are held: all of docs/ but records, raw runs and the page of modules."""
    docs = ROOT / "docs"
    return [
        *sorted(set(docs.glob("*.md")) - {docs / "architecture.md"}),
        *sorted((docs / "guides").glob("*.md")),
        *sorted((docs / "reference").glob("*.md")),
    ]


@pytest.mark.parametrize("page", prose(), ids=lambda page: page.name)
def test_prose_ends_at_100_columns(page: Path) -> None:
    text = re.sub(r"`+[^`\n]{60,}`+", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    long = [
        line
        for line in text.splitlines()
        if len(LINK.sub("]", line)) > 100 and not re.match(r"\||#|<!--", line)
    ]
    assert long == []
