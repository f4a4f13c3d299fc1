"""Functions of text count characters, and take offsets, patterns and delimiters only as they are
written."""

from __future__ import annotations

from sqlglot import exp

from slicewise.features.rowlogic.arguments import only_argument, text_of, whole_number, written_text
from slicewise.features.rowlogic.expression import Call, Literal, Node
from slicewise.features.rowlogic.typer import Handler, Typer
from slicewise.features.schema.types import BOOLEAN, LONG, STRING

MAX_TEXT = 1 << 20
"""Characters of the longest text that a record holds: offsets and lengths beyond are none."""


def substring(typer: Typer, node: exp.Expr) -> Node:
    text = text_of(typer, node.this, node, "SUBSTRING")
    start = whole_number(typer, node.args.get("start"), node, "SUBSTRING", 1, MAX_TEXT)
    length = node.args.get("length")
    count = (
        Literal(MAX_TEXT, LONG)
        if length is None
        else whole_number(typer, length, node, "SUBSTRING", 0, MAX_TEXT)
    )
    return Call("substring", (text, start, count), STRING)


def left(typer: Typer, node: exp.Expr) -> Node:
    count = whole_number(typer, node.expression, node, "LEFT", 0, MAX_TEXT)
    return Call(
        "substring", (text_of(typer, node.this, node, "LEFT"), Literal(1, LONG), count), STRING
    )


def right(typer: Typer, node: exp.Expr) -> Node:
    count = whole_number(typer, node.expression, node, "RIGHT", 0, MAX_TEXT)
    return Call("right", (text_of(typer, node.this, node, "RIGHT"), count), STRING)


def trimmed(typer: Typer, node: exp.Expr) -> Node:
    if node.args.get("expression") is not None:
        raise typer.refused("TRIM takes spaces away, and nothing else", node, "TRIM(text)")
    op = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
        str(node.args.get("position") or "").upper(), "trim"
    )
    return Call(op, (text_of(typer, node.this, node, op.upper()),), STRING)


def two_texts(op: str, kind: str = BOOLEAN, second: str = "expression") -> Handler:
    def handler(typer: Typer, node: exp.Expr) -> Node:
        parts = (node.this, node.args.get(second))
        return Call(op, tuple(text_of(typer, part, node, op.upper()) for part in parts), kind)

    return handler


def replaced(typer: Typer, node: exp.Expr) -> Node:
    text = text_of(typer, node.this, node, "REPLACE")
    searched = written_text(typer, node.expression, node, "REPLACE")
    return Call(
        "replace",
        (text, searched, text_of(typer, node.args.get("replacement"), node, "REPLACE")),
        STRING,
    )


def split_part(typer: Typer, node: exp.Expr) -> Node:
    text = text_of(typer, node.this, node, "SPLIT_PART")
    delimiter = written_text(typer, node.args.get("delimiter"), node, "SPLIT_PART")
    return Call(
        "split_part",
        (
            text,
            delimiter,
            whole_number(typer, node.args.get("part_index"), node, "SPLIT_PART", 1, 1000),
        ),
        STRING,
    )


def position(typer: Typer, node: exp.Expr) -> Node:
    searched = written_text(typer, node.args.get("substr"), node, "POSITION")
    return Call("position", (text_of(typer, node.this, node, "POSITION"), searched), LONG)


def like(typer: Typer, node: exp.Expr) -> Node:
    pattern = typer.typed(node.expression)
    if not isinstance(pattern, Literal) or pattern.kind != STRING or "\\" in str(pattern.value):
        raise typer.refused(
            "LIKE takes a pattern that is written out, without a backslash", node, "such as 'a%'"
        )
    call = Call("like", (text_of(typer, node.this, node, "LIKE"), pattern), BOOLEAN)
    return Call("not", (call,), BOOLEAN) if node.args.get("negate") else call


def one_text(op: str, kind: str = STRING) -> Handler:
    return lambda typer, node: Call(
        op, (text_of(typer, only_argument(typer, node), node, op.upper()),), kind
    )
