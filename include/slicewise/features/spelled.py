"""A parser's finding is told in the words of the text that was parsed, never in the parser's
own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

_FORMS: Mapping[type[exp.Expr], str] = {
    exp.Star: "*",
    exp.Bracket: "a place in [ ]",
    exp.Array: "an array in [ ]",
    exp.Struct: "a struct in { }",
    exp.Map: "a map",
    exp.Tuple: "a list in ( )",
    exp.Interval: "INTERVAL",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Collate: "COLLATE",
    exp.Alias: "an ALIAS",
    exp.Aliases: "an ALIAS",
    exp.Exists: "EXISTS",
    exp.Lambda: "a function in an argument",
    exp.Filter: "FILTER",
    exp.WithinGroup: "WITHIN GROUP",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
    exp.Distinct: "DISTINCT",
    exp.Order: "ORDER BY",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a placeholder",
    exp.SessionParameter: "a parameter",
    exp.Dot: "a name with a dot",
    exp.Slice: "a part in [ ]",
    exp.HexString: "a text of bytes",
    exp.BitString: "a text of bits",
    exp.ByteString: "a text of bytes",
    exp.National: "a text with N before it",
    exp.RawString: "a raw text",
    exp.UnicodeString: "a text with U& before it",
    exp.Escape: "ESCAPE",
    exp.SimilarTo: "SIMILAR TO",
    exp.BitwiseNot: "~",
    exp.Any: "ANY",
    exp.All: "ALL",
    exp.ParseJSON: "JSON",
    exp.JSON: "JSON",
    exp.Comprehension: "a list with FOR",
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentTime: "CURRENT_TIME",
    exp.CurrentUser: "CURRENT_USER",
    exp.SessionUser: "SESSION_USER",
    exp.PropertyEQ: ":=",
    exp.Kwarg: "=>",
    exp.TableColumn: "a name with a dot",
    exp.Columns: "COLUMNS",
}
_WORD = re.compile(r"\w+")
_OPERATOR = re.compile(r"[\s)\]]*([^\s\w'\"()\[\]]+|\w+(?:\s+(?:TO|LIKE))?)", re.IGNORECASE)
_MISSING = re.compile(r"Expect(?:ing|ed) ([^\s\w]+|[A-Z_]+)(?: after (\w+))?$")
_COUNTS = re.compile(r"The number of provided arguments \((\d+)\) is greater .* \((\d+)\)")


def spelled(text: str, node: exp.Expr) -> str:
    """The text of a node as it was parsed; "this" where it cannot be said."""
    start, end = node.meta.get("start"), node.meta.get("end")
    word = text[start : end + 1] if start is not None and end is not None else ""
    if _WORD.fullmatch(word):
        return word if isinstance(node, exp.Anonymous) else word.upper()
    form = _FORMS.get(type(node))
    if form is not None:
        return form
    if isinstance(node, exp.Func):
        for name in type(node).sql_names():
            if re.search(rf"\b{name}\s*\(", text, re.IGNORECASE):
                return name
    if isinstance(node, exp.Binary):
        ends = [part.meta["end"] for part in node.this.walk() if "end" in part.meta]
        written = _OPERATOR.match(text, max(ends) + 1) if ends else None
        return written.group(1).upper() if written else "this"
    if (
        isinstance(node, exp.DDL | exp.Command | exp.Query | exp.Values)
        or type(node).__name__ in _STATEMENTS
    ):
        first = _WORD.search(text)
        return first.group().upper() if first else "this"
    return "this"


_STATEMENTS = frozenset(
    ("Describe", "Set", "Show", "Attach", "Detach", "Copy", "Pragma", "Use", "Transaction")
)
_STATEMENTS |= {
    "Commit",
    "Rollback",
    "Drop",
    "Insert",
    "Update",
    "Delete",
    "Merge",
    "Kill",
    "Install",
    "Analyze",
}


def parse_message(error: SqlglotError) -> str:
    """Tells what a text that could not be parsed lacks, or has too much."""
    details = (getattr(error, "errors", None) or [{}])[0]
    description, at = (
        str(details.get("description") or ""),
        str(details.get("highlight") or "").strip(),
    )
    if description.startswith("Required"):
        return "something is missing here"
    if missing := _MISSING.match(description):
        what, before = missing.groups()
        what = "a type" if what == "TYPE" else what
        return f"{what} is missing" + (f" after {before.upper()}" if before else "")
    if counted := _COUNTS.match(description):
        given, most = counted.groups()
        return f"{given} arguments are given here, and at most {most} are taken"
    if not details.get("description"):
        return "a quote or a comment has no end"
    return f"{at!r} is not expected here" if at else "this is not expected here"
