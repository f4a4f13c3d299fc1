"""One catalog under one name: what Spark commits PyIceberg sees, and the other way round."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import DecimalType, IcebergType
from sqlalchemy.exc import OperationalError

from slicewise.errors import DefinitionError, StoreUnavailable
from slicewise.settings import Settings, redacted
from slicewise.stores.lake.schemas import NAMESPACES, Table

__all__ = ["Catalog", "IcebergTable", "ensure", "open_catalog", "tables"]

Catalog = SqlCatalog
"""The catalog and its tables, by the names that the rest of slicewise uses."""


def open_catalog(settings: Settings) -> SqlCatalog:
    """The platform's catalog; its namespaces exist afterwards. Raises StoreUnavailable where its
    database does not answer."""
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    try:
        catalog = SqlCatalog(
            settings.catalog_name, uri=settings.catalog_uri, warehouse=settings.warehouse
        )
        stand = set(catalog.list_namespaces())
    except OperationalError as error:
        raise StoreUnavailable(
            f"the archive's catalog does not answer: {error.orig}".strip(),
            where=redacted(settings.catalog_uri),
            expected="the database that SLICEWISE_CATALOG_URI names",
            next_step="bring it back, or correct the setting; then try again",
        ) from error
    missing = {(namespace,) for namespace in NAMESPACES} - stand
    for namespace in sorted(missing):
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            continue  # another process was quicker
    return catalog


def ensure(catalog: SqlCatalog, table: Table) -> IcebergTable:
    """The table, made if it is not there, with columns that it lacks, and decimals as wide as
    wanted.

    Raises DefinitionError where a column stands with another type.
    """
    try:
        loaded = catalog.load_table(table.identifier)
    except NoSuchTableError:
        try:
            loaded = catalog.create_table(
                table.identifier,
                table.schema(),
                partition_spec=table.spec(),
                properties=dict(table.properties),
            )
        except TableAlreadyExistsError:
            loaded = catalog.load_table(table.identifier)
    return _with_columns(loaded, table)


def tables(catalog: SqlCatalog, namespaces: Iterable[str] = NAMESPACES) -> list[tuple[str, ...]]:
    """Identifiers of all tables of these namespaces, sorted."""
    existing = set(catalog.list_namespaces())
    return sorted(
        identifier
        for namespace in namespaces
        if (namespace,) in existing
        for identifier in catalog.list_tables(namespace)
    )


def _with_columns(table: IcebergTable, wanted: Table) -> IcebergTable:
    present = {field.name: field.field_type for field in table.schema().fields}
    added = [column for column in wanted.columns if column.name not in present]
    wider = [
        column
        for column in wanted.columns
        if column.name in present and _is_wider(column.type, present[column.name])
    ]
    for column in wanted.columns:
        if (
            column.name in present
            and column not in wider
            and str(present[column.name]) != str(column.type)
            and not _list(column)
        ):
            raise DefinitionError(
                f"column {column.name!r} is {present[column.name]} in the table",
                where=".".join(wanted.identifier),
                expected=str(column.type),
                next_step="give the changed column another name: what is archived keeps its type",
            )
    if added or wider:
        with table.update_schema() as update:
            for column in wider:
                update.update_column(column.name, column.type)
            for column in added:
                update.add_column(column.name, column.type, column.doc)
    return table


def _is_wider(wanted: IcebergType, present: IcebergType) -> bool:
    """Tells whether a column may be promoted so: the same digits behind the point, and more before
    it."""
    if not isinstance(wanted, DecimalType) or not isinstance(present, DecimalType):
        return False
    return wanted.scale == present.scale and wanted.precision > present.precision


def _list(column: object) -> bool:
    return "list<" in str(getattr(column, "type", ""))
