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

from slicewise.errors import DefinitionError
from slicewise.settings import Settings
from slicewise.stores.lake.schemas import NAMESPACES, Table

__all__ = ["Catalog", "IcebergTable", "ensure", "open_catalog", "tables"]

Catalog = SqlCatalog
"""The catalog and its tables, by the names that the rest of slicewise uses."""


def open_catalog(settings: Settings) -> SqlCatalog:
    """The platform's catalog; its namespaces exist afterwards."""
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(settings.catalog_name, uri=settings.catalog_uri, warehouse=settings.warehouse)
    missing = {(each,) for each in NAMESPACES} - set(catalog.list_namespaces())
    for namespace in sorted(missing):
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            continue  # another process was quicker
    return catalog


def ensure(catalog: SqlCatalog, table: Table) -> IcebergTable:
    """The table, made if it is not there, with columns that it lacks, and decimals as wide as wanted.

    Raises DefinitionError where a column stands with another type.
    """
    try:
        found = catalog.load_table(table.identifier)
    except NoSuchTableError:
        try:
            found = catalog.create_table(
                table.identifier,
                table.schema(),
                partition_spec=table.spec(),
                properties=dict(table.properties),
            )
        except TableAlreadyExistsError:
            found = catalog.load_table(table.identifier)
    return _with_columns(found, table)


def tables(catalog: SqlCatalog, namespaces: Iterable[str] = NAMESPACES) -> list[tuple[str, ...]]:
    """Identifiers of all tables of these namespaces, sorted."""
    known = set(catalog.list_namespaces())
    return sorted(
        identifier for namespace in namespaces if (namespace,) in known for identifier in catalog.list_tables(namespace)
    )


def _with_columns(found: IcebergTable, wanted: Table) -> IcebergTable:
    present = {field.name: field.field_type for field in found.schema().fields}
    added = [each for each in wanted.columns if each.name not in present]
    wider = [each for each in wanted.columns if each.name in present and _is_wider(each.type, present[each.name])]
    for each in wanted.columns:
        if each.name in present and each not in wider and str(present[each.name]) != str(each.type) and not _list(each):
            raise DefinitionError(
                f"column {each.name!r} is {present[each.name]} in the table",
                where=".".join(wanted.identifier),
                expected=str(each.type),
                next_step="give the changed column another name: what is archived keeps its type",
            )
    if added or wider:
        with found.update_schema() as update:
            for each in wider:
                update.update_column(each.name, each.type)
            for each in added:
                update.add_column(each.name, each.type, each.doc)
    return found


def _is_wider(wanted: IcebergType, present: IcebergType) -> bool:
    """Tells whether a column may be promoted so: the same digits behind the point, and more before it."""
    if not isinstance(wanted, DecimalType) or not isinstance(present, DecimalType):
        return False
    return wanted.scale == present.scale and wanted.precision > present.precision


def _list(column: object) -> bool:
    return "list<" in str(getattr(column, "type", ""))
