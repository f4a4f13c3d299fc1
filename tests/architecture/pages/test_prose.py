"""Docstrings begin with a verb or with a noun of the domain, and their first sentence is short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("include", "dags", "plugins", "spark_jobs", "benchmarks", "examples", "docs", "tests")
# kept with the versions that they belong to: the text of their classes is part of what was stored
LEFT = ROOT / "tests" / "fixtures"
MOST_WORDS = 20
REFUSED = frozenset(
    {
        "what",
        "of",
        "that",
        "those",
        "as",
        "whose",
        "its",
        "each",
        "where",
        "who",
        "how",
        "which",
        "when",
        "why",
    }
    | {
        "whether",
        "whatever",
        "whoever",
        "wherever",
        "their",
        "it",
        "they",
        "so",
        "because",
        "if",
        "and",
        "also",
    }
    | {"but", "or", "there", "then", "than", "whom", "else", "though"}
)
FIRST = re.compile(r"[^\w`]*([\w’'-]*)")
END = re.compile(r"(?<=[.:;?!])\s")


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The tree and all statements in it, without the expressions, which are most of its nodes."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.expr):
            yield from statements(child)


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings of a module, its classes and its functions."""
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def of_attributes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of the docstrings that follow an assignment."""
    for node in statements(tree):
        body = getattr(node, "body", None)
        for before, after in pairwise(body) if isinstance(body, list) else ():
            messages = isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(
                after, ast.Expr
            )
            if (
                messages
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                yield after.lineno, after.value.value


def is_elliptic(text: str) -> bool:
    """Tells whether a docstring begins with a word that leaves its subject out."""
    match = FIRST.match(text)
    return match is not None and match[1].lower() in REFUSED


def fault(text: str) -> str | None:
    """Tells what is wrong with a docstring's first sentence; None: nothing."""
    sentence = END.split(text.split("\n\n")[0], maxsplit=1)[0]
    if is_elliptic(text):
        return f"begins with no verb and no noun: {sentence}"
    words = len(sentence.split())
    return f"{words} words in the first sentence: {sentence}" if words > MOST_WORDS else None


def modules(room: str) -> list[Path]:
    """Python files of a room, without what is kept of earlier versions."""
    paths = (path for path in (ROOT / room).rglob("*.py") if "node_modules" not in path.parts)
    return sorted(path for path in paths if LEFT not in path.parents)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("What a fingerprint is made of.", True),
        ("Of each node, what came to this together.", True),
        ("`of` is a word in code here.", False),
        ("Whether it is well.", True),
        ("Tells whether it is well.", False),
        ("Per-node counts that add up to the total.", False),
        (f"Gives {'very ' * 18}much.", False),
        (f"Gives {'very ' * 19}much.", True),
        (f"Gives this. And {'very ' * 30}much more.", False),
    ],
)
def test_a_fault_is_found(text: str, refused: bool) -> None:
    assert (fault(text) is not None) == refused


def test_every_docstring_of_a_planted_module_is_looked_at() -> None:
    planted = (
        '"""What it is."""\n\nclass A:\n    """As B."""\n    n: int\n    """Of many."""\n\n'
        '    async def f(self):\n        """Those."""\n'
    )
    tree = ast.parse(planted)
    assert [text for _, text in docstrings(tree) if fault(text)] == [
        "What it is.",
        "As B.",
        "Those.",
    ]
    assert [text for _, text in of_attributes(tree) if is_elliptic(text)] == ["Of many."]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_begin_with_a_verb_or_a_noun(room: str) -> None:
    results = []
    for path in modules(room):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        messages = [
            (line, why) for line, text in docstrings(tree) if (why := fault(text)) is not None
        ]
        messages += [(line, text) for line, text in of_attributes(tree) if is_elliptic(text)]
        results += [f"{path.relative_to(ROOT)}:{line} {why}" for line, why in messages]
    assert not results, "\n".join(results)
