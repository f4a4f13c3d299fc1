"""A spine may lie in a table of the catalog, or be what a query gives.

`iceberg:namespace.table`, also `…@snapshot`; `sql:SELECT …` over archived events by the names of
their sources, tables of the catalog, and files. All other texts are paths.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings

ICEBERG, SQL = "iceberg:", "sql:"
SPINE = "spine"


def located(settings: Settings, spine: object, deployment: Callable[[], Deployment]) -> object:
    """The table that a text names; all else, and paths, as they are. Raises BadRequest."""
    text = str(spine) if isinstance(spine, str | Path) else ""
    if text.startswith(ICEBERG):
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.named import load_named, read_named

        name, at, snapshot = text.removeprefix(ICEBERG).partition("@")
        if at and not snapshot.isdigit():
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
    within = {cte.alias for cte in parsed.find_all(exp.CTE)}
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET threads = 2")
        engine.execute("SET python_enable_replacements = false")
        tables = {(one.db, one.name): one for one in parsed.find_all(exp.Table)}
        for number, table in enumerate(tables.values()):
            if not table.name or (not table.db and table.name in within) or _is_file(table):
                continue
            engine.register(f"_rows_{number}", _rows_of(catalog, table, parsed, deployment))
            name = exp.table_(table.name, db=table.db or None, quoted=True)
            if table.db:
                schema = exp.to_identifier(table.db, quoted=True).sql("duckdb")
                engine.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            engine.execute(f"CREATE VIEW {name.sql('duckdb')} AS SELECT * FROM _rows_{number}")
        try:
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


def _rows_of(catalog: Any, table: exp.Table, parsed: exp.Query, deployment: Deployment) -> pa.Table:
    """The columns of a table that the query names; all where it has a star."""
    from slicewise.stores.lake.archive import load, scan_events
    from slicewise.stores.lake.named import columns_of, load_named, read_named

    named = {column.name for column in parsed.find_all(exp.Column)}
    has_star = any(select.is_star for select in parsed.find_all(exp.Select))

    def chosen(names: tuple[str, ...]) -> list[str]:
        return [name for name in names if has_star or name in named] or list(names[:1])

    if table.db:
        loaded = load_named(catalog, f"{table.db}.{table.name}", SPINE)
        return read_named(loaded, SPINE, chosen(columns_of(loaded)))
    source = next((one for one in deployment.sources if one.name == table.name), None)
    if source is None:
        raise BadRequest(
            f"the query reads {table.name!r}, and no source has that name",
            where=SPINE,
            expected=f"sources ({', '.join(one.name for one in deployment.sources)}), "
            "namespace.table or a file in quotes",
            next_step="name one of these",
        )
    log = load(catalog, source.name)
    if log is None:
        raise BadRequest(
            f"nothing of source {source.name!r} is archived",
            where=SPINE,
            expected="at least one archive",
            next_step="run the DAG compact_slices, which archives first",
        )
    own = chosen(tuple(name for name, _ in source.columns))
    return scan_events(log, source, columns=own, as_read=True).select(own)


def _is_file(table: exp.Table) -> bool:
    return not isinstance(table.this, exp.Identifier) or bool(Path(table.name).suffix)


def _refused(why: str) -> BadRequest:
    return BadRequest(
        f"the query is refused: {why}",
        where=SPINE,
        expected="a SELECT that DuckDB understands",
        next_step="try it over the same tables, and give it once it runs",
    )
