"""A spine may lie in a table of the catalog, or be what a query gives.

`iceberg:namespace.table`, also `…@snapshot`; `sql:SELECT …` over archived events by the names of
their sources, tables of the catalog, and files. All other texts are paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source
from slicewise.settings import Settings

ICEBERG, SQL = "iceberg:", "sql:"
SPINE = "spine"
FILES = (".parquet", ".csv", ".json", ".jsonl")
"""Files that a query may read."""
_BEYOND_NAMES = frozenset(
    {"#", "columns", "natural", "pivot", "pivot_wider", "unpivot", "positional", "summarize"}
)
"""Words of queries that read columns which they do not name."""


def located(settings: Settings, spine: object, deployment: Callable[[], Deployment]) -> object:
    """The table that a text names; all else, and paths, as they are. Raises BadRequest."""
    text = str(spine) if isinstance(spine, str | Path) else ""
    if text.startswith(ICEBERG):
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.named import load_named, read_named

        name, at, snapshot = text.removeprefix(ICEBERG).partition("@")
        if at and not (snapshot.isascii() and snapshot.isdigit()):
            raise BadRequest(
                f"{snapshot!r} is no snapshot",
                where=SPINE,
                expected="iceberg:namespace.table, or …@ and the number of a snapshot",
                next_step="leave it out to read the newest",
            )
        table = load_named(open_catalog(settings), name, SPINE)
        return read_named(table, SPINE, snapshot_id=int(snapshot) if at else None)
    if text.startswith(SQL):
        return queried(settings, text.removeprefix(SQL), deployment())
    return spine


def queried(settings: Settings, query: str, deployment: Deployment) -> pa.Table:
    """The rows of a query, by DuckDB. Raises BadRequest."""
    from slicewise.stores.lake.catalog import open_catalog

    parsed = _parsed(query)
    catalog = open_catalog(settings)
    sources = {source.name.lower(): source for source in deployment.sources}
    within = {cte.alias.lower() for cte in parsed.find_all(exp.CTE)}
    tables, files = {}, []
    for table in parsed.find_all(exp.Table):
        # where a query of the same name hides a source, nothing reads what stands here
        if table.db or table.name.lower() in sources:
            tables[table.db.lower(), table.name.lower()] = table
        elif Path(table.name).suffix.lower() in FILES:
            files.append(table.name)
        elif isinstance(table.this, exp.Identifier) and table.name.lower() not in within:
            raise BadRequest(
                f"the query reads {table.name!r}, and no source has that name",
                where=SPINE,
                expected=f"sources ({', '.join(sorted(sources))}), namespace.table or a file in "
                f"quotes ({', '.join(FILES)})",
                next_step="name one of these",
            )
    with duckdb.connect() as engine:
        try:
            engine.execute("SET TimeZone = 'UTC'; SET threads = 2")
            engine.execute("SET python_enable_replacements = false")
            for number, table in enumerate(tables.values()):
                rows = _rows_of(catalog, table, _Needed.of(query, parsed), sources)
                engine.register(f"_rows_{number}", rows)
                name = exp.table_(table.name, db=table.db or None, quoted=True).sql("duckdb")
                if table.db:
                    schema = exp.to_identifier(table.db, quoted=True).sql("duckdb")
                    engine.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                engine.execute(f"CREATE VIEW {name} AS SELECT * FROM _rows_{number}")
            # of files only those that stand in the query, by their names
            engine.execute("SET allowed_paths = ?", [[str(Path(file)) for file in files]])
            engine.execute("SET enable_external_access = false; SET lock_configuration = true")
            return engine.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise _refused(str(error).partition("\n")[0]) from error


def _parsed(query: str) -> exp.Query:
    try:
        parsed = sqlglot.parse_one(query, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise _refused(str(error).partition("\n")[0]) from error
    if not isinstance(parsed, exp.Query):
        raise _refused("it is no SELECT")
    return parsed


@dataclass(frozen=True)
class _Needed:
    """Columns that a query may name: those whose names stand in its text; all of them where it may
    mean more than it names."""

    words: frozenset[str]
    everything: bool

    @staticmethod
    def of(query: str, parsed: exp.Query) -> _Needed:
        """Looks at every word of the text, whatever it is, so that no form of SQL is missed."""
        tokens = sqlglot.tokenize(query, read="duckdb")
        words = frozenset(token.text.lower() for token in tokens)
        star = any(not isinstance(one.parent, exp.Count) for one in parsed.find_all(exp.Star))
        tables = {
            name.lower()
            for table in parsed.find_all(exp.Table, exp.Subquery, exp.CTE)
            for name in (table.name, table.alias)
            if name
        }
        whole_rows = any(one.name.lower() in tables for one in parsed.find_all(exp.Column))
        renamed = any(alias.columns for alias in parsed.find_all(exp.TableAlias))
        return _Needed(words, star or whole_rows or renamed or bool(words & _BEYOND_NAMES))

    def chosen(self, names: tuple[str, ...]) -> list[str]:
        """Columns of a table that are read; at least one, which counts its rows."""
        if self.everything:
            return list(names)
        return [name for name in names if name.lower() in self.words] or list(names[:1])


def _rows_of(
    catalog: Any, table: exp.Table, needed: _Needed, sources: Mapping[str, Source]
) -> pa.Table:
    from slicewise.stores.lake.archive import load, scan_events
    from slicewise.stores.lake.named import columns_of, load_named, read_named

    if table.db:
        loaded = load_named(catalog, f"{table.db}.{table.name}", SPINE)
        return read_named(loaded, SPINE, needed.chosen(columns_of(loaded)))
    source = sources[table.name.lower()]
    log = load(catalog, source.name)
    if log is None:
        raise BadRequest(
            f"nothing of source {source.name!r} is archived",
            where=SPINE,
            expected="at least one archive",
            next_step="run the DAG compact_slices, which archives first",
        )
    own = needed.chosen(tuple(name for name, _ in source.columns))
    return scan_events(log, source, columns=own, as_read=True).select(own)


def _refused(why: str) -> BadRequest:
    return BadRequest(
        f"the query is refused: {why}",
        where=SPINE,
        expected="a SELECT that DuckDB understands",
        next_step="try it over the same tables, and give it once it runs",
    )
