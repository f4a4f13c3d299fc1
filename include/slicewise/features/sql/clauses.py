"""A SELECT has the clauses that a view can be; every other is refused where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from slicewise.features.declare.definitions import KafkaSource
from slicewise.features.sql.text import SqlText, Tokens
from slicewise.names import listed, nearest

ONE_SOURCE = "a view is the features of one source, kept as events come"
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("JOIN", "NATURAL", "CROSS", "LATERAL", "UNNEST"),
        "a JOIN cannot be kept incrementally here: "
        + ONE_SOURCE
        + "; features of several views meet in a feature set",
    ),
    "HAVING": "HAVING would drop entities by what they come to, and a feature is asked for by entity",
    "QUALIFY": "QUALIFY would drop rows by what they come to, and a feature is asked for by entity",
    "LIMIT": "LIMIT would answer some entities and not others",
    "OFFSET": "OFFSET would answer some entities and not others",
    "FETCH": "FETCH would answer some entities and not others",
    "ORDER BY": "ORDER BY of rows: features are asked for by entity, and have no order",
    **dict.fromkeys(
        ("UNION", "EXCEPT", "INTERSECT"), "one SELECT is one view: write several views"
    ),
    **dict.fromkeys(("TABLESAMPLE", "USING"), "a sample is another result at every run"),
    **dict.fromkeys(("PIVOT", "UNPIVOT", "INTO", "FOR"), "this clause is no part of a view"),
}
_PARTS = ("SELECT", "FROM", "WHERE", "GROUP BY", "WINDOW")
_OPENS = {",", "(", "[", "SELECT", "GROUP BY", "PARTITION BY", "ORDER BY"}
_CLOSES = {",", ")", "]", "FROM", "WHERE", "GROUP BY", "ORDER BY"}


@dataclass(frozen=True)
class Clauses:
    """A SELECT that has no other clauses. parts: the tokens of each, without its keyword."""

    sql: SqlText
    tokens: Tokens
    parts: Mapping[str, Tokens]
    tree: exp.Select

    @staticmethod
    def of(sql: SqlText, tokens: Tokens) -> Clauses:
        """The clauses of a SELECT. Raises SqlRefused."""
        parts = _parts(sql, tokens)
        return Clauses(sql, tokens, parts, _tree(sql, tokens))

    def source(self, sources: Mapping[str, KafkaSource]) -> KafkaSource:
        """The source that FROM names. Raises SqlRefused."""
        tokens = self.parts["FROM"]
        name = str(tokens[0].text)
        if name not in sources:
            raise self.sql.refused(
                f"unknown source {name!r}",
                tokens.at(0),
                "one of " + listed(sources),
                nearest(name, sources)
                if sources
                else "declare it: CREATE SOURCE …, or in the project's Python file",
            )
        return sources[name]

    def windows(self) -> dict[str, tuple[exp.Window, Tokens]]:
        """The windows of the WINDOW clause by name, each with the tokens of its parentheses."""
        if "WINDOW" not in self.parts:
            return {}
        parts = self.parts["WINDOW"].split(",")
        nodes = self.tree.args.get("windows") or []
        if len(nodes) != len(parts):
            raise self.sql.refused(
                "WINDOW begins a clause here",
                self.sql.tokens().find("WINDOW") or self.tokens.span(),
                "WINDOW name AS (…), behind WHERE",
                'a column of that name stands in quotes: "window"',
            )
        windows: dict[str, tuple[exp.Window, Tokens]] = {}
        for node, tokens in zip(nodes, parts, strict=True):
            if node.name.lower() in {name.lower() for name in windows}:
                raise self.sql.refused(
                    f"window {node.name!r} is defined twice",
                    tokens.span(),
                    "each name once, whatever its case",
                )
            windows[node.name] = (node, tokens.part(2, len(tokens)))  # name AS ( … )
        return windows


def _parts(sql: SqlText, tokens: Tokens) -> dict[str, Tokens]:
    if tokens.word(0) != "SELECT":
        reason = {
            "WITH": "a common table expression is a query in a query",
            "FROM": "FROM stands behind SELECT here",
            "(": "a query in parentheses",
        }.get(tokens.word(0), "this is no SELECT")
        raise sql.refused(reason, tokens.at(0), "SELECT … FROM source …")
    if tokens.word(1) in ("DISTINCT", "ALL"):
        raise sql.refused(
            f"SELECT {tokens.word(1)}: a feature has one row per entity anyway",
            tokens.at(1),
            "SELECT alone",
        )
    for index in tokens.outside(*_REFUSED):
        raise sql.refused(_REFUSED[tokens.word(index)], tokens.at(index), " … ".join(_PARTS))
    _refuse_gaps(sql, tokens)
    starts = [i for i in tokens.outside(*_PARTS) if not is_distinct_from(tokens, i)]
    parts: dict[str, Tokens] = {}
    for index, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        word = tokens.word(index)
        if word in parts:
            raise sql.refused(f"{word} stands twice", tokens.at(index), "each clause once")
        parts[word] = tokens.part(index + 1, end)
    for word in ("SELECT", "GROUP BY"):
        if word in parts and not len(parts[word]):
            raise sql.refused(
                f"nothing stands behind {word}", tokens.at(tokens.outside(word)[0]), f"{word} …"
            )
    if "FROM" not in parts:
        raise sql.refused("FROM is missing", tokens.at(len(tokens)), "FROM source")
    _check_from(sql, parts["FROM"])
    return parts


def _refuse_gaps(sql: SqlText, tokens: Tokens) -> None:
    """Refuse a comma with nothing before or behind it: the parser forgives one, and a part would
    get lost."""
    for index in range(len(tokens)):
        if tokens.word(index) == "," and (
            tokens.word(index - 1) in _OPENS or _ends(tokens, index + 1)
        ):
            raise sql.refused(
                "nothing stands beside this comma",
                tokens.at(index),
                "a comma between two things alone",
            )


def _ends(tokens: Tokens, index: int) -> bool:
    return index == len(tokens) or tokens.word(index) in _CLOSES


def is_distinct_from(tokens: Tokens, index: int) -> bool:
    """Tells whether this FROM is the last word of IS DISTINCT FROM."""
    return (tokens.word(index - 1), tokens.word(index)) == ("DISTINCT", "FROM")


def _check_from(sql: SqlText, tokens: Tokens) -> None:
    if tokens.word(0) == "(":
        raise sql.refused(
            "a subquery cannot be kept incrementally: " + ONE_SOURCE,
            tokens.span(),
            "FROM source",
            "row logic goes into WHERE and into the functions, as in sum(seconds / 60)",
        )
    if tokens.word(1) == "(":
        raise sql.refused(
            "FROM is no function here",
            tokens.span(),
            "FROM source",
            "windows side by side are written GROUP BY …, TUMBLE(ts, INTERVAL '1' HOUR)",
        )
    if len(tokens) != 1 or tokens[0].token_type.name == "STRING":
        at = tokens.at(1) if len(tokens) > 1 else tokens.at(0)
        raise sql.refused("FROM names a source, and nothing else", at, "FROM source")


def _tree(sql: SqlText, tokens: Tokens) -> exp.Select:
    tree = sql.parsed(tokens.span())
    supported = {"expressions", "from_", "where", "group", "windows"}
    others = [name for name, value in tree.args.items() if value and name not in supported]
    if not isinstance(tree, exp.Select) or others:
        kind = others[0].strip("_").upper() if others else type(tree).__name__
        raise sql.refused(f"{kind} is no part of a view", tokens.at(0), " … ".join(_PARTS))
    return tree
