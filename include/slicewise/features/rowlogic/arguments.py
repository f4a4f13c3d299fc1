"""An argument of a function is what the function takes, or the text is refused at the function's
place."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from slicewise.features.rowlogic.coercion import coerced
from slicewise.features.rowlogic.expression import Literal, Node
from slicewise.features.rowlogic.typer import Typer
from slicewise.features.schema.types import LONG, STRING


def text_of(typer: Typer, node: exp.Expr | None, at: exp.Expr, what: str) -> Node:
    """An argument that is text; a bare NULL is one."""
    value = (
        of_kind_if_null(typer.typed(node), STRING) if node is not None else Literal(None, STRING)
    )
    if value.kind != STRING:
        raise typer.refused(f"{what} of {value.kind}", at, "text")
    return value


def of_kind_if_null(node: Node, kind: str) -> Node:
    """The node, a bare NULL as a null of the kind."""
    return coerced(node, kind) if node.kind == "null" else node


def whole_number(
    typer: Typer, node: exp.Expr | None, at: exp.Expr, what: str, least: int, greatest: int
) -> Literal:
    """A whole number that is written out, within bounds."""
    value = typer.typed(node) if node is not None else None
    number = value.value if isinstance(value, Literal) and value.kind == LONG else None
    if isinstance(value, Literal) and isinstance(number, int) and least <= number <= greatest:
        return value
    raise typer.refused(
        f"{what} takes a whole number that is written out", at, f"{least} to {greatest}"
    )


def written_text(typer: Typer, node: exp.Expr | None, at: exp.Expr, what: str) -> Literal:
    """A text that is written out, and is not empty."""
    value = typer.typed(node) if node is not None else None
    if isinstance(value, Literal) and value.kind == STRING and value.value:
        return value
    raise typer.refused(
        f"{what} takes a text that is written out", at, "at least one character in quotes"
    )


def _arguments(node: exp.Expr) -> Sequence[exp.Expr]:
    return node.expressions if isinstance(node, exp.Anonymous) else (node.this, *node.expressions)


def only_argument(typer: Typer, node: exp.Expr) -> exp.Expr:
    """The one argument of a function."""
    arguments = _arguments(node)
    if len(arguments) != 1:
        raise typer.refused(f"{node.name or node.key.upper()} takes one value", node)
    return arguments[0]


def two_arguments(typer: Typer, node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The two arguments of a function that the parser does not know."""
    if len(node.expressions) != 2:
        raise typer.refused(f"{node.name} takes two values", node)
    return node.expressions[0], node.expressions[1]
