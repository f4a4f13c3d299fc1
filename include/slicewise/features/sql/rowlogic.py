"""Row logic inside of a query is the row logic of definitions: typed by the same rules, at its
place in the text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from slicewise.errors import DefinitionError
from slicewise.features.rowlogic.expression import RowExpression, RowLogicRefused, canonical
from slicewise.features.rowlogic.reader import parse_expression, typed
from slicewise.features.sql.text import Span, SqlText, node_span
from slicewise.names import listed, nearest


@dataclass
class RowLogic:
    """Row logic of one query, and the computed columns that it makes.

    kinds: the source's columns and their types. head: the place of what has none of its own.
    aggregates: their names.
    """

    sql: SqlText
    kinds: Mapping[str, str]
    head: Span
    aggregates: frozenset[str] = frozenset()
    columns: dict[str, str] = field(default_factory=dict)
    typed: dict[str, RowExpression] = field(default_factory=dict)

    def all_kinds(self) -> dict[str, str]:
        """Types of the source's columns and of those that were computed."""
        return {**self.kinds, **{name: e.kind for name, e in self.typed.items()}}

    def column_name(self, node: exp.Column) -> str:
        """The name of a column that exists. Raises SqlRefused."""
        kinds = self.all_kinds()
        if node.name not in kinds:
            raise self.sql.refused(
                f"unknown column {node.name!r}",
                self.span_of(node),
                "one of " + listed(kinds),
                nearest(node.name, kinds),
            )
        return node.name

    def span_of(self, node: exp.Expr) -> Span:
        """The place of a node."""
        return node_span(node) or self.head

    def condition(self, node: exp.Expr) -> str:
        """A condition as text."""
        return self._text(node, boolean=True)

    def define(self, name: str, node: exp.Expr) -> None:
        """`node AS name` among the selected columns: a computed column."""
        if name in self.columns:
            raise self.sql.refused(
                f"{name!r} is computed twice",
                self.span_of(node),
                "each name once",
                "give one of them another name",
            )
        text = self._text(node)
        self.columns[name] = text
        self.typed[name] = self._parsed(text)

    def computed(self, node: exp.Expr) -> str:
        """The computed column of an expression that has no name: equal expressions share one."""
        text = self._text(node)
        expression = self._parsed(text)
        canon = json.dumps(canonical(expression.tree), sort_keys=True, separators=(",", ":"))
        name = f"expr_{hashlib.sha256(canon.encode()).hexdigest()[:8]}"
        self.columns.setdefault(name, text)
        self.typed.setdefault(name, expression)
        return name

    def _parsed(self, text: str, *, boolean: bool = False) -> RowExpression:
        return parse_expression(
            text, self.kinds, where=self.sql.name, defined=self.typed, boolean=boolean
        )

    def _text(self, node: exp.Expr, *, boolean: bool = False) -> str:
        span = self.span_of(node)
        for inner in node.find_all(exp.Anonymous):
            if str(inner.this).lower() in self.aggregates:
                raise self.sql.refused(
                    (
                        f"{inner.this} is an aggregate, and here an expression of one event is "
                        "expected"
                    ),
                    self._word(inner.meta.get("start")),
                    "row logic, as in sum(seconds / 60)",
                )
        try:
            tree = typed(node, self.sql.text, self.kinds, self.typed)
            text = node.sql(dialect="duckdb", comments=False)
            again = self._parsed(text, boolean=boolean)
        except RowLogicRefused as error:
            at = (
                span
                if not error.where or error.start is None or error.where.startswith(self.sql.name)
                else None
            )
            raise self.sql.refused(
                error.what, at or self._word(error.start), error.expected, error.next_step
            ) from error
        except DefinitionError as error:
            raise self.sql.refused(error.what, span, error.expected, error.next_step) from error
        except RecursionError:
            raise self.sql.refused("the expression is nested too deeply", span) from None
        if again.tree != tree:
            raise self.sql.refused(
                "this expression is read in two ways",
                span,
                next_step="put parentheses where it is meant",
            )
        return text

    def _word(self, start: int | None) -> Span:
        """The word that begins there."""
        begin = start or 0
        end = begin
        while end < len(self.sql.text) and (
            self.sql.text[end].isalnum() or self.sql.text[end] == "_"
        ):
            end += 1
        return Span(begin, max(end, begin + 1))
