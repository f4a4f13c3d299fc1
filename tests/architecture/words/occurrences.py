"""Finds names: in Python and Java, settings, metrics, log events, and in headings and code
spans of the docs."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.architecture.words.retired import TABLE, Retired

ROOT = Path(__file__).resolve().parents[3]
TOPS = (
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
SUFFIXES = frozenset({".py", ".java", ".md"})
LEFT_OUT = frozenset({"__pycache__", "node_modules", "target"})
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
NAME = re.compile(r"[A-Za-z_]\w*")
SETTING = re.compile(r"\bSLICEWISE_[A-Z0-9_]+")
ASIDE_IN_JAVA = re.compile(
    r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*[\s\S]*?\*/'
)
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
HEADING = re.compile(r"#{1,6} (.+)")
PYTHON_NAME = re.compile(r"\b[A-Za-z_]\w*")
# tokenize finds the same names in four times the time
ASIDE_IN_PYTHON = re.compile(
    r'''(?<!\w)[rRbBuUfF]{0,2}(?:"""(?:\\[\s\S]|[^\\])*?"""|\'{3}(?:\\[\s\S]|[^\\])*?\'{3}'''
    r"""|"(?:\\[\s\S]|[^"\\\n])*"|\'(?:\\[\s\S]|[^\'\\\n])*\')|#[^\n]*"""
)
METRICS = frozenset({"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"})
LOGGED = frozenset({"debug", "info", "warning", "error", "exception", "event"})
CALL = re.compile(rf"\b(?:{'|'.join(sorted(METRICS | LOGGED))})\s*\(")


@dataclass(frozen=True)
class Named:
    """A name where it stands. sentence: a test's name or a heading, in which ordinary English is
    allowed."""

    name: str
    path: str
    line: int
    kind: str
    sentence: bool = False


@dataclass(frozen=True)
class Occurrence:
    """A retired word in a name."""

    named: Named
    word: str
    row: Retired

    def __str__(self) -> str:
        where = f"{self.named.path}:{self.named.line}"
        return (
            f"{where}: {self.word!r} in {self.named.kind} {self.named.name!r}: {self.row.becomes}"
        )


def parts_of(name: str) -> list[str]:
    """`hot_ledger`, `hotLedger` and `HotLedger` -> hot, ledger."""
    return [part.lower() for part in PART.findall(name)]


_parts = cache(parts_of)  # most names stand in many places


def every(name: str) -> bool:  # noqa: ARG001
    """Wants any name."""
    return True


def names_of(path: str, text: str, wanted: Callable[[str], bool] = every) -> Iterator[Named]:
    """The names of a file, by its suffix; of those in Python code the wanted ones."""
    yield Named(Path(path).stem, path, 1, "file", sentence=path.startswith("docs/adr/"))
    for match in SETTING.finditer(text):
        yield Named(match[0], path, text.count("\n", 0, match.start()) + 1, "setting")
    if path.endswith(".py"):
        yield from _python(path, text, wanted)
    elif path.endswith(".java"):
        yield from _java(path, text)
    else:
        yield from _docs(path, text)


def _python(path: str, text: str, wanted: Callable[[str], bool]) -> Iterator[Named]:
    lines = _without(ASIDE_IN_PYTHON, text)
    names = {name for name in set(PYTHON_NAME.findall("\n".join(lines))) if wanted(name)}
    for number, line in enumerate(lines, 1) if names else ():
        for name in PYTHON_NAME.findall(line):
            if name in names:
                yield Named(name, path, number, "name", sentence=name.startswith("test_"))
    for node in ast.walk(ast.parse(text)) if CALL.search(text) else ():
        if isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            kind = "metric" if called in METRICS else "log event" if called in LOGGED else ""
            # a metric's labels follow its name; a log event's fields are keywords, and as such
            # names
            arguments = node.args if kind == "metric" else node.args[:1] if kind else []
            for argument in arguments:
                yield from (
                    Named(name, path, argument.lineno, kind) for name in _literals(argument)
                )


def _literals(argument: ast.expr) -> Iterator[str]:
    """Names in a literal; a text with blanks is prose."""
    if isinstance(argument, ast.List | ast.Tuple | ast.JoinedStr):
        for value in argument.values if isinstance(argument, ast.JoinedStr) else argument.elts:
            yield from _literals(value)
    elif (
        isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and re.fullmatch(r"\w+", argument.value)
    ):
        yield argument.value


def _java(path: str, text: str) -> Iterator[Named]:
    for number, line in enumerate(_without(ASIDE_IN_JAVA, text), 1):
        yield from (Named(match[0], path, number, "name") for match in NAME.finditer(line))


def _without(aside: re.Pattern[str], text: str) -> list[str]:
    """Lines of a text in which there is a blank for what is aside."""
    return aside.sub(lambda match: " " + "\n" * match[0].count("\n"), text).split("\n")


def _docs(path: str, text: str) -> Iterator[Named]:
    bare = FENCE.sub(lambda match: re.sub(r"[^\n]", "", match[0]), text)
    for number, line in enumerate(bare.splitlines(), 1):
        if (heading := HEADING.fullmatch(line)) is not None:
            words = NAME.findall(SPAN.sub("", heading[1]))
            yield from (Named(word, path, number, "heading", sentence=True) for word in words)
        for span in SPAN.finditer(line):
            yield from (
                Named(match[0], path, number, "code span") for match in NAME.finditer(span[1])
            )


def words_of(named: Named, rows: Mapping[str, Retired]) -> Iterator[tuple[str, Retired]]:
    """Retired words of a name, each once. rows: by part and by class."""
    candidates = {part: rows[part] for part in _parts(named.name) if part in rows}
    if named.name in rows and named.name not in candidates:
        candidates[named.name] = rows[named.name]
    for word, row in candidates.items():
        if not (row.english and named.sentence):
            yield word, row


def by_word(table: Iterable[Retired]) -> Mapping[str, Retired]:
    """Row of each retired word."""
    return {word: row for row in table for word in (*row.parts, *row.classes)}


def occurrences(names: Iterable[Named], table: Iterable[Retired] = TABLE) -> list[Occurrence]:
    """Every retired word in these names, those of kept names too."""
    rows = by_word(table)
    return [Occurrence(named, word, row) for named in names for word, row in words_of(named, rows)]


def files() -> list[Path]:
    """All files of the repository that have names."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for top in TOPS:
        paths += (ROOT / top).rglob("*")
    return sorted(
        path for path in paths if path.suffix in SUFFIXES and not LEFT_OUT & set(path.parts)
    )


@cache
def all_occurrences() -> tuple[Occurrence, ...]:
    """Every retired word in the repository."""
    rows = by_word(TABLE)

    @cache  # most names stand in many files
    def has_word(name: str) -> bool:
        return name in rows or any(part in rows for part in parts_of(name))

    names = (
        named
        for path in files()
        for named in names_of(
            path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"), has_word
        )
    )
    return tuple(occurrences(names))


@cache
def left() -> Mapping[str, list[Occurrence]]:
    """Title of a row -> its words in names that are not kept."""
    by_row: dict[str, list[Occurrence]] = defaultdict(list)
    for occurrence in all_occurrences():
        named = occurrence.named
        if not any(kept.fits(named.name, named.path) for kept in occurrence.row.kept):
            by_row[occurrence.row.title].append(occurrence)
    return by_row
