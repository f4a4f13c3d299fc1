"""A text is refused with its line and column, and a caret under the place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from slicewise.errors import DefinitionError
from slicewise.features.spelled import parse_message
from slicewise.features.sql.dialect import SlicewiseSql

MAX_TEXT = 1_000_000
_WIDTH = 110
_WINDOW_CLAUSE = re.compile(r"\bWINDOW\s+(TUMBLING|HOPPING|SESSION)\s*\(", re.IGNORECASE)
_HERE = {
    "TUMBLING": "GROUP BY key, TUMBLE(ts, INTERVAL '1' HOUR)",
    "HOPPING": "GROUP BY key, HOP(ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR)",
    "SESSION": "GROUP BY key, SESSION(ts, INTERVAL '30' MINUTE, INTERVAL '1' DAY)",
}
_QUOTED = frozenset(
    kind
    for kind in TokenType
    if kind.name in ("STRING", "IDENTIFIER") or kind.name.endswith("_STRING")
)
FROM_EXPECTED = "write what is expected at the caret; docs/reference/sql.md shows whole views"
FROM_DOCS = "take it out; docs/reference/sql.md shows what can stand here"


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a text."""

    start: int
    end: int


class SqlRefused(DefinitionError):
    """SQL that is not what a definition can be. line, column: of the place, from 1."""

    def __init__(
        self,
        what: str,
        *,
        line: int,
        column: int,
        where: str | None = None,
        expected: str | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(what, where=where, expected=expected, next_step=next_step)
        self.line = line
        self.column = column


@dataclass(frozen=True)
class SqlText:
    """SQL and what it is called in messages: a file, or the place in Python where it is written."""

    text: str
    name: str

    def line_and_column(self, at: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        return self.text.count("\n", 0, at) + 1, at - (self.text.rfind("\n", 0, at) + 1) + 1

    def refused(
        self, what: str, at: Span, expected: str | None = None, next_step: str | None = None
    ) -> SqlRefused:
        """The error for what stands there."""
        then = next_step or (FROM_EXPECTED if expected else FROM_DOCS)
        line, column = self.line_and_column(at.start)
        return SqlRefused(
            what,
            line=line,
            column=column,
            where=f"{self.name}, line {line}, column {column}\n{self._shown(at, line, column)}",
            expected=expected,
            next_step=then,
        )

    def _shown(self, at: Span, line: int, column: int) -> str:
        whole = self.text.split("\n")[line - 1].rstrip("\r")
        cut = max(0, column - 1 - _WIDTH // 2) if len(whole) > _WIDTH else 0
        shown = whole[cut : cut + _WIDTH]
        before = "".join("\t" if c == "\t" else " " for c in shown[: column - 1 - cut])
        carets = "^" * max(
            1, min(at.end - at.start, len(whole) - column + 1, len(shown) - len(before))
        )
        number = str(line)
        return f"    {number} | {shown}\n    {' ' * len(number)} | {before}{carets}"

    def tokens(self) -> Tokens:
        """All tokens. Raises SqlRefused where the text has no end: an open quote or comment."""
        if len(self.text) > MAX_TEXT:
            raise self.refused(f"{len(self.text)} characters", Span(0, 1), f"at most {MAX_TEXT}")
        try:
            return Tokens(self, tuple(sqlglot.tokenize(self.text, dialect=SlicewiseSql)))
        except TokenError as error:
            last = max(self.text.rfind(quote) for quote in "'\"`$/")
            at = Span(max(0, last), max(0, last) + 1)
            raise self.refused(
                "the text ends inside a quote or a comment", at, "its end: ' or \" or */"
            ) from error

    def parsed(self, span: Span) -> exp.Expr:
        """The tree of one statement; its positions are those of the whole text."""
        head = "".join("\n" if c == "\n" else " " for c in self.text[: span.start])
        try:
            trees = sqlglot.parse(head + self.text[span.start : span.end], dialect=SlicewiseSql)
        except SqlglotError as error:
            raise self._no_sql(error, span) from error
        except RecursionError:
            raise self.refused(
                "the statement is nested too deeply", span, "fewer parentheses"
            ) from None
        if len(trees) != 1 or trees[0] is None:
            raise self.refused("this is no statement", span, "one SELECT")
        return trees[0]

    def _no_sql(self, error: SqlglotError, span: Span) -> SqlRefused:
        details = (getattr(error, "errors", None) or [{}])[0]
        highlight = details.get("highlight") or ""
        line, column = details.get("line"), details.get("col")
        at = span
        if line and column:
            starts = [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]
            start = starts[min(line, len(starts)) - 1] + column - len(highlight)
            at = Span(max(0, start), max(0, start) + max(1, len(highlight)))
        whole = "SELECT … FROM source … GROUP BY …, TUMBLE(ts, INTERVAL '1' HOUR), or OVER (…)"
        return self.refused(
            f"this is no SQL: {parse_message(error)}",
            at,
            whole,
            _elsewhere(self.text) or "correct the text",
        )


@dataclass(frozen=True)
class Tokens:
    """Tokens of a text, with what stands between parentheses told from what does not."""

    sql: SqlText
    all: Sequence[Token]

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, index: int) -> Token:
        return self.all[index]

    def part(self, first: int, last: int) -> Tokens:
        """Tokens [first, last)."""
        return Tokens(self.sql, self.all[first:last])

    def within(self, span: Span) -> Tokens:
        """The tokens that begin in the span."""
        return Tokens(self.sql, [t for t in self.all if span.start <= t.start < span.end])

    def word(self, index: int) -> str:
        """The token's text in capitals; quoted text and the end are no words."""
        return self._words[index] if 0 <= index < len(self.all) else ""

    @cached_property
    def _words(self) -> Sequence[str]:
        return ["" if quoted(token) else str(token.text).upper() for token in self.all]

    def span(self) -> Span:
        """From the first to the last of them."""
        if not self.all:
            end = len(self.sql.text)
            return Span(max(0, end - 1), end)
        return Span(self.all[0].start, self.all[-1].end + 1)

    def at(self, index: int) -> Span:
        """The place of a token; beyond the last, behind it."""
        if index < len(self.all):
            return span_of(self.all[index])
        end = self.span().end
        return Span(end, end + 1)

    def depths(self) -> Iterator[tuple[int, int]]:
        """(index, how many parentheses are open before it) of every token."""
        depth = 0
        for index, word in enumerate(self._words):
            if word in (")", "]", "}"):
                depth -= 1
            yield index, depth
            if word in ("(", "[", "{"):
                depth += 1

    def outside(self, *words: str) -> list[int]:
        """Positions of these words outside of all parentheses."""
        return [index for index, depth in self.depths() if depth == 0 and self.word(index) in words]

    def find(self, *words: str) -> Span | None:
        """The place of the first of these words."""
        return next((self.at(i) for i in range(len(self.all)) if self.word(i) in words), None)

    def split(self, separator: str) -> list[Tokens]:
        """The parts between separators that stand outside of all parentheses."""
        cuts = [-1, *self.outside(separator), len(self.all)]
        return [self.part(a + 1, b) for a, b in pairwise(cuts)]


def span_of(token: Token) -> Span:
    """The place of a token."""
    return Span(token.start, token.end + 1)


def quoted(token: Token) -> bool:
    """Tells whether it is text or a name in quotes, which no keyword is."""
    return token.token_type in _QUOTED


def node_span(node: exp.Expr) -> Span | None:
    """From the first to the last position that the parser kept below a node."""
    spans = [n.meta for n in node.walk() if "start" in n.meta]
    if not spans:
        return None
    return Span(min(m["start"] for m in spans), max(m["end"] for m in spans) + 1)


def _elsewhere(text: str) -> str | None:
    """Text to write for a clause of another system's SQL."""
    match = _WINDOW_CLAUSE.search(text)
    return f"write {_HERE[match[1].upper()]}" if match else None
