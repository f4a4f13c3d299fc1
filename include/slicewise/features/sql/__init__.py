"""SQL says what Python says: a view written in either is the same definition, with the same
fingerprint.

Doors: sql, text_of, python_form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slicewise.calls import checked_call, shown
from slicewise.errors import DefinitionError
from slicewise.features.declare.definitions import Case, FeatureView, KafkaSource
from slicewise.features.naming import Location, check_mapping, written_at
from slicewise.features.sql.grouped import GROUP_WINDOWS
from slicewise.features.sql.select import read_view, source_of
from slicewise.features.sql.source import read_source
from slicewise.features.sql.statements import Statement, statements
from slicewise.features.sql.text import SqlRefused, SqlText
from slicewise.features.sql.windows import SLICE
from slicewise.names import nearest


@dataclass(frozen=True)
class Definitions:
    """Definitions that a text declares. queries: views of a SELECT without CREATE FEATURE VIEW."""

    sources: tuple[KafkaSource, ...]
    views: tuple[FeatureView, ...]
    queries: tuple[FeatureView, ...]


@checked_call
def sql(
    text: str, *, sources: Iterable[KafkaSource] = (), tests: Sequence[Case] = ()
) -> FeatureView:
    """The one view that the text declares: CREATE FEATURE VIEW name AS SELECT …

    sources: those that FROM may name, beside CREATE SOURCE in the text. tests: cases of the view.
    Raises DefinitionError with line and column for whatever cannot be served as it is written.
    """
    location = written_at() or Location("<sql>", 1)
    _check_tests(tests, location)
    read = read_definitions(text, f"{location}, in its SQL", location, sources, {None: tests})
    if len(read.views) != 1 or read.queries:
        raise DefinitionError(
            f"{len(read.views)} views and {len(read.queries)} queries",
            where=str(location),
            expected="one CREATE FEATURE VIEW name AS SELECT …",
            next_step="several views come by sw.sql_views",
        )
    return read.views[0]


@checked_call
def sql_views(
    text: str | Path,
    *,
    sources: Iterable[KafkaSource] = (),
    tests: Mapping[str, Sequence[Case]] | None = None,
) -> tuple[FeatureView, ...]:
    """All views that a text or, given a Path, a file declares; deployed where they stand in the
    project's module.

    A file's path is read from the folder of the calling file. tests: cases by the view's name.
    """
    location = written_at() or Location("<sql>", 1)
    if tests is not None:
        check_mapping(tests, "tests", str(location), '{"view": [sw.case(…)]}')
        for cases in tests.values():
            _check_tests(cases, location)
    given: dict[str | None, Sequence[Case]] = {}
    given.update(tests or {})
    if isinstance(text, str) and text.strip().lower().endswith(".sql") and len(text.split()) == 1:
        raise DefinitionError(
            f"the SQL is {text!r}, the name of a file",
            where=str(location),
            expected="statements, or the Path of a file",
            next_step=f"write sw.sql_views(Path({text.strip()!r}))",
        )
    if isinstance(text, Path):
        file = text if text.is_absolute() else Path(location.file).parent / text
        read = read_file(file, sources, given)
    else:
        read = read_definitions(text, f"{location}, in its SQL", location, sources, given)
    unknown = sorted(name for name in tests or {} if name not in {view.name for view in read.views})
    if unknown:
        raise DefinitionError(
            f"tests of {unknown[0]!r}, which is no view of the text",
            where=str(location),
            next_step=nearest(unknown[0], [view.name for view in read.views]),
        )
    if read.queries:
        raise _unnamed(read.queries[0])
    return read.views


def read_file(
    file: Path,
    sources: Iterable[KafkaSource] = (),
    tests: Mapping[str | None, Sequence[Case]] | None = None,
) -> Definitions:
    """Reads what a file declares. Raises DefinitionError."""
    own = Location(str(file), 1)
    return read_definitions(text_of(file), str(file), own, sources, tests or {}, own_lines=True)


def text_of(file: Path) -> str:
    """The statements of a file. Raises DefinitionError."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(
            str(error),
            where=str(file),
            expected="a file of SQL in UTF-8",
            next_step="name a file that can be read, saved as UTF-8",
        ) from error


def read_definitions(
    text: str,
    name: str,
    location: Location,
    sources: Iterable[KafkaSource],
    tests: Mapping[str | None, Sequence[Case]] | None = None,
    *,
    own_lines: bool = False,
) -> Definitions:
    """Sources, views and queries of a text. tests: cases by the view's name; None: of any view.

    name: what messages call the text. location: of the text; with own_lines, each definition has
    its own line.
    """
    if not isinstance(text, str):
        raise DefinitionError(
            f"the SQL is {shown(text)}",
            where=name,
            expected="a text: CREATE FEATURE VIEW …",
            next_step="quote it",
        )
    sources = _sources(sources, name)
    whole = SqlText(text, name)
    by_name = {source.name: source for source in sources}
    own: list[KafkaSource] = []
    views: list[FeatureView] = []
    queries: list[FeatureView] = []
    parsed = statements(whole)
    for statement in parsed:
        if statement.kind == "source":
            source = read_source(whole, statement, _line(whole, statement, location, own_lines))
            _refuse_again(whole, "source", source.name, by_name, statement)
            by_name[source.name] = source
            own.append(source)
    for statement in parsed:
        if statement.kind != "source":
            at = _line(whole, statement, location, own_lines)
            _refuse_again(whole, "view", statement.name, [view.name for view in views], statement)
            cases = (tests or {}).get(statement.name) or (tests or {}).get(None) or ()
            view = read_view(whole, statement, by_name, at, cases)
            (views if statement.kind == "view" else queries).append(view)
    return Definitions(tuple(own), tuple(views), tuple(queries))


def sources_named(text: str, name: str) -> set[str]:
    """The names that stand behind FROM in a text, without those that it declares itself."""
    parsed = statements(SqlText(text, name))
    declared = {statement.name for statement in parsed if statement.kind == "source"}
    named = {source_of(statement) for statement in parsed if statement.kind != "source"}
    return {source_name for source_name in named if source_name is not None} - declared


def event_time_named(text: str, name: str) -> str | None:
    """The column by which a text orders events: that of ORDER BY, or of a window of GROUP BY. None:
    it names none."""
    tokens = SqlText(text, name).tokens()
    for index in range(len(tokens)):
        if tokens.word(index) == "ORDER BY":
            inner = index + 1 if tokens.word(index + 1) != SLICE else index + 3
        elif tokens.word(index) in GROUP_WINDOWS and tokens.word(index + 1) == "(":
            inner = index + 2
        else:
            continue
        return str(tokens[inner].text) if inner < len(tokens) else None
    return None


def _sources(sources: object, name: str) -> tuple[KafkaSource, ...]:
    given = tuple(sources) if isinstance(sources, Iterable) else (None,)
    wrong = [source for source in given if not isinstance(source, KafkaSource)]
    if wrong:
        raise DefinitionError(
            f"sources is {shown(sources)}",
            where=name,
            expected="sources=[sw.KafkaSource(…), …]",
            next_step="put it in [ ]",
        )
    return tuple(source for source in given if isinstance(source, KafkaSource))


def _check_tests(tests: object, location: Location) -> None:
    if not isinstance(tests, Sequence) or not all(isinstance(test, Case) for test in tests):
        raise DefinitionError(
            f"tests is {shown(tests)}",
            where=str(location),
            expected="tests=[sw.case(…), …]",
            next_step="put each test in a sw.case(…), and these in [ ]",
        )


def _refuse_again(
    whole: SqlText, what: str, name: str, names: Iterable[str], statement: Statement
) -> None:
    """Refuse a name that is declared already, also in other capitals and small letters."""
    for other in names:
        if other == name:
            raise whole.refused(
                f"{what} {name!r} is declared twice", statement.head, "each name once", "rename one"
            )
        if other.lower() == name.lower():
            raise whole.refused(
                f"{what}s {other!r} and {name!r} differ in case only",
                statement.head,
                "names that differ in more, since SQL does not see case",
                "rename one",
            )


def _line(whole: SqlText, statement: Statement, location: Location, own: bool) -> Location:
    line, column = whole.line_and_column(statement.head.start)
    if own:
        return Location(location.file, line, f":{column}")
    return Location(location.file, location.line, f", in its SQL, line {line}, column {column}")


def _unnamed(view: FeatureView) -> DefinitionError:
    return DefinitionError(
        "a SELECT without a name",
        where=str(view.location),
        expected="CREATE FEATURE VIEW name AS SELECT …",
        next_step="name it; slicewise sql shows the rows of a SELECT alone",
    )


__all__ = [
    "Definitions",
    "SqlRefused",
    "event_time_named",
    "read_definitions",
    "read_file",
    "sources_named",
    "sql",
    "sql_views",
    "text_of",
]
