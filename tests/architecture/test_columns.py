"""Lines end at 100 columns: code, comments, docstrings and pages, but for what cannot be broken."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
FOLDERS = ("include", "dags", "plugins", "spark_jobs", "benchmarks", "examples", "docs", "tests")
NOT_OURS = {"node_modules", "__pycache__"}
# what a version stored holds the text of its classes: these files stay as they were
KEPT = ROOT / "tests" / "fixtures"
# a checker's mark stands on the line that it is about, with its reason
PRAGMA = re.compile(r"#\s*(?:noqa|type:|fmt:|pragma:)")
NAMED = re.compile(r"\s*(?:async )?def test_\w+\((?:\) -> \()?$")
DRAWN = re.compile(r"\S {3,}\S|[│└├┌┐┘┤┬┴┼]")
FENCE = re.compile(r"\s*(?:```|~~~)")
# what a page cannot break: a table's row, a heading, HTML, and a line of one word (a link, a test's
# name in backticks)
PAGE = re.compile(r"\s*(?:\||#|<|\[[^\]]+\]: )")
ONE_WORD = re.compile(
    r"\s*(?:[-*>(] ?)*(?:`[^`]+`|!?\[[^\]]*\]\([^)]*\)|\S+)[.,;:)]*(?: \S{1,12})?$"
)


def files(end: str) -> list[Path]:
    """Files of the repository with this end, by name."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob(f"*.{end}")]
    paths += ROOT.glob(f"*.{end}")
    return sorted(
        path
        for path in paths
        if not NOT_OURS & set(path.parts)
        and not (path.name == "features.py" and path.is_relative_to(KEPT))
    )


def docstring_lines(tree: ast.AST) -> dict[int, int]:
    """Line of a docstring (or of a text behind an assignment) -> the column at which it begins."""
    columns: dict[int, int] = {}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        statements: list[ast.AST] = body if isinstance(body, list) else []
        for i, statement in enumerate(statements):
            text = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
                continue
            if i == 0 or isinstance(statements[i - 1], ast.Assign | ast.AnnAssign):
                end = (text.end_lineno or text.lineno) + 1
                columns |= dict.fromkeys(range(text.lineno, end), text.col_offset)
    return columns


def kept_form(text: str, tree: ast.AST) -> set[int]:
    """Lines of statements that the formatter leaves as they are (`fmt: skip`, `fmt: off`)."""
    lines = text.split("\n")
    kept: set[int] = set()
    skipped = {n for n, line in enumerate(lines, 1) if re.search(r"#\s*fmt:\s*skip", line)}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.end_lineno in skipped:
            kept |= set(range(node.lineno, node.end_lineno + 1))
    off = False
    for n, line in enumerate(lines, 1):
        off = (off or "# fmt: off" in line) and "# fmt: on" not in line
        if off:
            kept.add(n)
    return kept


def literals(text: str) -> set[int]:
    """Lines on which a literal goes beyond the width, or that lie in a literal of several lines."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
            several = token.start[0] != token.end[0]
            if several:
                lines |= set(range(token.start[0], token.end[0] + 1))
            elif token.end[1] > WIDTH - 3:
                lines.add(token.start[0])
    return lines


def long_in_python(text: str) -> Iterator[tuple[int, str]]:
    """Lines beyond the width, but for pragmas, literals, commands, drawings and tests' names."""
    lines = ((n, line) for n, line in enumerate(text.split("\n"), 1) if len(line) > WIDTH)
    long = [(n, line) for n, line in lines if not NAMED.match(line)]
    if not long:
        return
    tree = ast.parse(text)
    texts, kept = docstring_lines(tree), kept_form(text, tree)
    others = literals(text) - texts.keys()
    for n, line in long:
        if n in texts:  # a docstring's commands and drawings stand deeper than its text
            deeper = len(line) - len(line.lstrip()) > texts[n]
            free = deeper or bool(DRAWN.search(line.strip()))
        else:
            drawn = line.lstrip().startswith("#") and DRAWN.search(line.strip())
            free = bool(PRAGMA.search(line) or n in kept or n in others or drawn)
        if not free:
            yield n, line


def long_in_page(text: str) -> Iterator[tuple[int, str]]:
    """Lines beyond the width, but for tables, headings, HTML, output and what is one word."""
    fenced = False
    for n, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif len(line) > WIDTH and not fenced and not PAGE.match(line) and not ONE_WORD.match(line):
            yield n, line


def long_in_java(text: str) -> Iterator[tuple[int, str]]:
    """Lines beyond the width, but for literals."""
    for n, line in enumerate(text.split("\n"), 1):
        if len(line) > WIDTH and '"' not in line:
            yield n, line


LONG = {"py": long_in_python, "md": long_in_page, "java": long_in_java}


@pytest.mark.parametrize(
    ("end", "text", "count"),
    [
        ("py", f"x = 1  # {'very ' * 30}long\n", 1),
        ("py", f"x = 1  # noqa: {'A' * 100}\n", 0),
        ("py", f'x = "{"a" * 100}"\n', 0),
        ("py", f'"""Says {"very " * 30}much.\n\n    python {"a " * 60}\n"""\n', 1),
        ("md", f"{'word ' * 30}\n| {'word ' * 30} |\n```\n{'word ' * 30}\n```\n", 1),
        ("java", f'// {"word " * 30}\nf("{"a" * 100}");\n', 1),
    ],
)
def test_a_long_line_is_found(end: str, text: str, count: int) -> None:
    assert len([*LONG[end](text)]) == count


@pytest.mark.parametrize("end", sorted(LONG))
def test_lines_end_at_100_columns(end: str) -> None:
    long_lines = [
        f"{path.relative_to(ROOT)}:{n} {line.strip()[:80]}"
        for path in files(end)
        for n, line in LONG[end](path.read_text(encoding="utf-8"))
    ]
    assert not long_lines, "\n".join(long_lines)
