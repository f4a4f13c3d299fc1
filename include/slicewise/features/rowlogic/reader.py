"""Only what both engines answer alike becomes row logic; all else is refused with its position.

Text is Spark SQL's expression syntax, with these rules where engines differ: an identifier's case
counts; a quote inside text is written '' and a backslash is a backslash; a number with a point or
an exponent is a double; `/` of integers is a double; integer overflow and division by zero are
null; CONCAT of a null is null; LEAST and GREATEST skip nulls; NaN equals NaN and is greater than
every number.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser

from slicewise.errors import DefinitionError
from slicewise.features.rowlogic.coercion import NULL
from slicewise.features.rowlogic.expression import Call, Node, RowExpression
from slicewise.features.rowlogic.functions.allowed import ALLOWED_FUNCTIONS
from slicewise.features.rowlogic.functions.dialects import REPEATED
from slicewise.features.rowlogic.typer import ALLOWED, Typer
from slicewise.features.schema.types import BOOLEAN
from slicewise.features.spelled import parse_message

MAX_TEXT = 10_000
MAX_SIZE = 20_000


class QuietParser(DuckDBParser):
    """The parser of DuckDB's SQL, without its warnings on the standard error."""

    def _warn_unsupported(self) -> None:
        """Leave it to who refuses the tree: a statement that is not understood is no expression."""


class RowLogicSql(DuckDB):
    """The dialect of row logic."""

    Parser = QuietParser


def parse_expression(
    text: str,
    types: Mapping[str, str],
    *,
    where: str,
    defined: Mapping[str, RowExpression] | None = None,
    boolean: bool = False,
) -> RowExpression:
    """Typed row logic from text.

    types: the source's columns and their types. where: the place of the definition, for messages.
    defined: computed columns that the text may name; they are put in its place. boolean: the
    result must be one. Raises DefinitionError with the position for whatever is not allowed.
    """
    typer = _typer(text, types, where, defined or {})
    try:
        node = typer.typed(_parsed(text, where))
    except RecursionError:
        raise typer.refused("the expression is nested too deeply", None) from None
    if node.kind == NULL:
        raise typer.refused("the expression is always null", None)
    if _size(node, {}) > MAX_SIZE:
        raise typer.refused("the expression is too large", None, f"at most {MAX_SIZE} operators")
    if boolean and node.kind != BOOLEAN:
        raise typer.refused(f"a condition is boolean, this is {node.kind}", None)
    return RowExpression(text, node)


def typed(
    node: exp.Expr, text: str, types: Mapping[str, str], defined: Mapping[str, RowExpression]
) -> Node:
    """Typed row logic of a part of a text that was parsed already; types, defined: as of
    `parse_expression`. Raises RowLogicRefused."""
    return _typer(text, types, "", defined).typed(node)


def _typer(
    text: str, types: Mapping[str, str], where: str, defined: Mapping[str, RowExpression]
) -> Typer:
    return Typer(text, types, where, defined, ALLOWED_FUNCTIONS)


def _parsed(text: str, where: str) -> exp.Expr:
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
        raise DefinitionError(
            "row logic is an expression as text",
            where=where,
            expected=f'1 to {MAX_TEXT} characters, such as "seconds >= 30"',
            next_step="write the expression in quotes, or leave it out",
        )
    try:
        statements = sqlglot.parse(text, dialect=RowLogicSql)
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        column = details[0].get("col")
        raise DefinitionError(
            f"{text!r} is no expression: {parse_message(error)}",
            where=where + (f", character {column}" if column else ""),
            expected=ALLOWED,
            next_step="correct the text",
        ) from error
    if len(statements) != 1 or statements[0] is None:
        raise DefinitionError(
            f"{text!r} is not one expression",
            where=where,
            expected="one expression, no `;`",
            next_step="write one expression; several conditions are joined by AND",
        )
    return statements[0]


def _size(node: Node, sizes: dict[int, int]) -> int:
    # How often the compiled text repeats its parts: NULLIF and guarded casts repeat theirs.
    if not isinstance(node, Call):
        return 1
    if id(node) not in sizes:
        times = 3 if node.op == "cast" else REPEATED.get(node.op, 1)
        sizes[id(node)] = 1 + times * sum(_size(argument, sizes) for argument in node.args)
    return sizes[id(node)]
