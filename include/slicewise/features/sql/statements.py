"""A text is a list of statements, each a source, a view or a query; anything else is refused by its
first word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slicewise.errors import DefinitionError
from slicewise.features.expectations import Expectation, expectations_of, refuse_lacking
from slicewise.features.naming import tags_of
from slicewise.features.sql.text import Span, SqlText, Tokens
from slicewise.names import nearest

FORMS = (
    "CREATE SOURCE name (column type, …) WITH (…); CREATE FEATURE VIEW name AS SELECT …; or a "
    "SELECT alone"
)


@dataclass(frozen=True)
class Option:
    """The value of `name = value` in WITH (…)."""

    value: str
    span: Span
    name_span: Span


@dataclass(frozen=True)
class Statement:
    """name: empty for a query alone. body: the columns of a source, or the SELECT."""

    kind: str
    name: str
    head: Span
    body: Tokens
    options: Mapping[str, Option] = field(default_factory=dict)


def statements(sql: SqlText) -> list[Statement]:
    """The statements of a text, in order. Raises SqlRefused."""
    tokens = sql.tokens()
    _refuse_unbalanced(tokens)
    parsed = [_statement(part) for part in tokens.split(";") if len(part)]
    if not parsed:
        raise sql.refused("there is no statement", Span(0, 1), FORMS)
    return parsed


def _refuse_unbalanced(tokens: Tokens) -> None:
    """Refuse a parenthesis without its other one: each clause would be looked for at a wrong
    depth."""
    opened: list[int] = []
    for index in range(len(tokens)):
        if tokens.word(index) == "(":
            opened.append(index)
        elif tokens.word(index) == ")":
            if not opened:
                raise tokens.sql.refused(
                    "this parenthesis was never opened", tokens.at(index), "as many ( as )"
                )
            opened.pop()
    if opened:
        raise tokens.sql.refused("this parenthesis is never closed", tokens.at(opened[-1]), ")")


def _statement(tokens: Tokens) -> Statement:
    if tokens.word(0) != "CREATE":
        if tokens.word(0) in ("SELECT", "WITH", "FROM", "(", "VALUES"):
            return Statement("query", "", tokens.at(0), tokens)
        raise tokens.sql.refused(
            f"{tokens[0].text} is no statement of a definition", tokens.at(0), FORMS
        )
    if tokens.word(1) == "SOURCE":
        return _source(tokens)
    if (tokens.word(1), tokens.word(2)) == ("FEATURE", "VIEW"):
        return _view(tokens)
    second = tokens.word(1)
    if second == "OR" or "EXISTS" in (tokens.word(i) for i in range(2, 6)):
        raise tokens.sql.refused(
            "a definition is declared, not run: there is nothing to replace",
            tokens.at(1),
            FORMS,
            "leave it out; `slicewise plan` says what deploying the text changes",
        )
    hint = {
        "TABLE": "CREATE SOURCE",
        "STREAM": "CREATE SOURCE",
        "VIEW": "CREATE FEATURE VIEW",
        "MATERIALIZED": "CREATE FEATURE VIEW",
    }.get(second)
    raise tokens.sql.refused(
        f"CREATE {tokens[1].text if len(tokens) > 1 else ''} is no definition",
        tokens.at(1),
        FORMS,
        f"write {hint}" if hint else None,
    )


def _source(tokens: Tokens) -> Statement:
    name = _name(tokens, 2, "a source")
    if tokens.word(3) != "(":
        raise tokens.sql.refused(
            "a source has columns", tokens.at(3), "(user_id STRING NOT NULL, …)"
        )
    end = _closing(tokens, 3)
    options: dict[str, Option] = {}
    if end + 1 < len(tokens):
        options, after = _options(tokens, end + 1)
        _nothing_after(tokens, after)
    return Statement("source", name, tokens.at(2), tokens.part(4, end), options)


def _view(tokens: Tokens) -> Statement:
    name = _name(tokens, 3, "a view")
    at = 4
    options: dict[str, Option] = {}
    if tokens.word(at) == "WITH":
        options, at = _options(tokens, at)
    if tokens.word(at) != "AS":
        raise tokens.sql.refused("the view's SELECT is missing", tokens.at(at), "AS SELECT …")
    if at + 1 >= len(tokens):
        raise tokens.sql.refused("the view's SELECT is missing", tokens.at(at), "AS SELECT …")
    return Statement("view", name, tokens.at(3), tokens.part(at + 1, len(tokens)), options)


def _name(tokens: Tokens, index: int, what: str) -> str:
    if (
        index >= len(tokens)
        or tokens.word(index) in ("(", ")", "AS", "WITH")
        or tokens[index].text == ""
    ):
        raise tokens.sql.refused(f"{what} has a name", tokens.at(index), "a name")
    if tokens[index].token_type.name == "STRING":
        raise tokens.sql.refused("a name is no text", tokens.at(index), "a name without quotes")
    return str(tokens[index].text)


def _closing(tokens: Tokens, opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens.word(index), 0)
        if depth == 0:
            return index
    raise tokens.sql.refused("this parenthesis is never closed", tokens.at(opening), ")")


def _options(tokens: Tokens, at: int) -> tuple[dict[str, Option], int]:
    """WITH (name = value, …) that begins at `at`, and the index behind it."""
    if tokens.word(at) != "WITH" or tokens.word(at + 1) != "(":
        raise tokens.sql.refused(
            "this belongs to no definition", tokens.at(at), "WITH (name = 'value', …)"
        )
    end = _closing(tokens, at + 1)
    options: dict[str, Option] = {}
    for part in tokens.part(at + 2, end).split(","):
        if len(part) != 3 or part.word(1) != "=":
            where = part.span() if len(part) else tokens.at(end)
            raise tokens.sql.refused("an option is written otherwise", where, "name = 'value'")
        name = str(part[0].text).lower()
        if name in options:
            raise tokens.sql.refused(
                f"the option {name} stands twice", part.at(0), "each option once"
            )
        options[name] = Option(str(part[2].text), part.at(2), part.at(0))
    return options, end + 1


def _nothing_after(tokens: Tokens, at: int) -> None:
    if at < len(tokens):
        raise tokens.sql.refused("this belongs to no definition", tokens.at(at), "`;` or the end")


def refuse_unknown_options(
    sql: SqlText, options: Mapping[str, Option], allowed: Iterable[str], hints: Mapping[str, str]
) -> None:
    """Refuse an option that does not exist; `hints` tell what to do instead of some."""
    allowed = sorted(allowed)
    for name, option in options.items():
        if name not in allowed:
            hint = next(
                (text for start, text in hints.items() if name.startswith(start)),
                nearest(name, allowed),
            )
            raise sql.refused(
                f"unknown option {name!r}", option.name_span, "one of " + ", ".join(allowed), hint
            )


EXPECT = """expect = '[{"type": "expect_…", "kwargs": {"column": "…"}}]'"""


def expectations(sql: SqlText, option: Option | None, where: str) -> tuple[Expectation, ...]:
    """The expectations of an option that holds Great Expectations' own JSON, a list of them; none
    where it is left out."""
    if option is None:
        return ()
    try:
        given = json.loads(option.value)
    except json.JSONDecodeError as error:
        what = f"expect is no JSON from character {error.pos + 1} on"
        raise sql.refused(what, option.span, EXPECT) from error
    if not isinstance(given, list):
        raise sql.refused("expect is no list", option.span, EXPECT)
    try:
        read = expectations_of(given, where)
        for expectation in read:
            refuse_lacking(expectation, where)
    except DefinitionError as error:
        raise sql.refused(error.what, option.span, error.expected, error.next_step) from error
    return read


DESCRIBE = """describe = '{"plays_1h": "…"}'"""


def texts_of(sql: SqlText, option: Option | None) -> dict[str, str]:
    """Column -> text of an option that holds a JSON object of texts; none where it is left out."""
    if option is None:
        return {}
    try:
        given = json.loads(option.value)
    except json.JSONDecodeError as error:
        what = f"describe is no JSON from character {error.pos + 1} on"
        raise sql.refused(what, option.span, DESCRIBE) from error
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise sql.refused("describe is no object of texts", option.span, DESCRIBE)
    return given


def listed(option: Option | None) -> list[str]:
    """Names of an option, between commas; none where it is left out."""
    return [] if option is None else [name.strip() for name in option.value.split(",")]


def tags(sql: SqlText, option: Option | None, where: str) -> tuple[str, ...]:
    """Tags of an option, between commas; none where it is left out. Raises SqlRefused."""
    try:
        return tags_of(listed(option), where)
    except DefinitionError as error:
        assert option is not None
        raise sql.refused(error.what, option.span, error.expected, error.next_step) from error


def truth(sql: SqlText, option: Option | None) -> bool:
    """TRUE or FALSE of an option; FALSE where it is left out."""
    if option is None:
        return False
    if option.value.upper() not in ("TRUE", "FALSE"):
        raise sql.refused(f"{option.value!r} is no truth value", option.span, "TRUE or FALSE")
    return option.value.upper() == "TRUE"
