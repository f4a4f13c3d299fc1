"""Tables of users beside the platform's own: read as spines, written as data sets, whole or not at
all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, schema_to_pyarrow
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from slicewise.errors import BadRequest, CommitConflict
from slicewise.stores.lake.archive import instant_literal
from slicewise.stores.lake.catalog import Catalog, IcebergTable
from slicewise.stores.lake.schemas import NAMESPACES

_CONFLICTS = (CommitFailedException, TableAlreadyExistsError, ValidationException)


def load_named(catalog: Catalog, name: str, where: str) -> IcebergTable:
    """The table `namespace.table`. Raises BadRequest where there is none."""
    try:
        return catalog.load_table(_identifier(name, where))
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise BadRequest(
            f"there is no table {name!r}",
            where=where,
            expected="a table of the platform's Iceberg catalog",
            next_step="list its tables with Spark or PyIceberg: SHOW TABLES IN namespace",
        ) from error


def read_named(
    table: IcebergTable, where: str, columns: Iterable[str] = ("*",), snapshot_id: int | None = None
) -> pa.Table:
    """These columns of a table, at its newest snapshot or at this one.

    Raises BadRequest, also for a list of structs: PyIceberg reads a null one as an empty one.
    """
    try:
        scan = table.scan(selected_fields=tuple(columns), snapshot_id=snapshot_id)
        for field in scan.projection().fields:
            if _has_list_of_structs(field.field_type):
                raise BadRequest(
                    f"{field.name!r} holds a list of structs, of which nulls cannot be read",
                    where=where,
                    expected="columns of other types",
                    next_step="leave it out: sql:SELECT with the columns that are needed",
                )
        return scan.to_arrow()
    except (ValueError, OSError) as error:
        raise BadRequest(
            f"the table cannot be read: {error}",
            where=where,
            expected="a snapshot that it still has",
            next_step="leave the snapshot out to read the newest",
        ) from error


def columns_of(table: IcebergTable) -> tuple[str, ...]:
    """Names of its columns."""
    return tuple(field.name for field in table.schema().fields)


def refuse_own(name: str, where: str) -> None:
    """Raises BadRequest for a name that is none of a user's table."""
    namespace = _identifier(name, where)[0]
    if namespace in NAMESPACES:
        raise BadRequest(
            f"{namespace!r} holds tables of the platform",
            where=where,
            expected=f"another namespace than {', '.join(NAMESPACES)}",
            next_step="name a table as training.churn",
        )


def write_named(
    catalog: Catalog,
    name: str,
    runs: Iterator[pa.Table],
    properties: Callable[[], Mapping[str, str]],
    where: str,
    instants: Sequence[int] = (),
) -> None:
    """Writes a table in one commit, in place of what it held: a reader sees it before or after.

    runs: at least one. properties: of the table, looked at once all runs were given. instants: of
    the column `at`, in microseconds, whose rows alone are replaced; without any all rows are.
    Raises BadRequest for a column whose type Iceberg lacks and for a table of other columns,
    CommitConflict where another writer came first.
    """
    refuse_own(name, where)
    identifier = _identifier(name, where)
    first = next(runs)
    try:
        catalog.create_namespace_if_not_exists(identifier[0])
        if catalog.table_exists(identifier):
            table = catalog.load_table(identifier)
            _refuse_columns(table, first.schema, where)
            transaction = table.transaction()
            if table.current_snapshot() is not None:
                transaction.delete(_at_one_of(instants))
        else:
            schema = pa.schema([_field(field, where) for field in first.schema])
            transaction = catalog.create_table_transaction(identifier, schema)
    except (UnsupportedPyArrowTypeException, TypeError, ValueError) as error:
        raise _no_type(str(error).partition("\n")[0], where) from error
    target = schema_to_pyarrow(transaction.table_metadata.schema(), include_field_ids=False)
    location = transaction.table_metadata.location
    io = load_file_io(catalog.properties, location)
    paths: list[str] = []
    try:
        every = (_typed(run, target, where) for run in chain([first], runs))
        for run in every if not instants else _by_instant(every):
            path = f"{location}/data/{uuid4()}.parquet"
            paths.append(path)
            # PyIceberg's own writer makes empty lists of null lists of structs
            with io.new_output(path).create() as file:
                pq.write_table(run, file, compression="zstd")
        if paths:
            transaction.add_files(paths)
        transaction.set_properties(dict(properties()))
        transaction.commit_transaction()
    except BaseException as error:
        if isinstance(error, CommitStateUnknownException):
            raise  # a table may name them
        for path in paths:
            with suppress(OSError):
                io.delete(path)
        if isinstance(error, _CONFLICTS):
            raise CommitConflict(
                "another writer came first", where=where, next_step="write the table again"
            ) from error
        raise


def properties_of(catalog: Catalog, name: str) -> Mapping[str, str]:
    """Properties of the table `namespace.table`; none where there is no table."""
    try:
        return catalog.load_table(_identifier(name, name)).properties
    except (NoSuchTableError, NoSuchNamespaceError):
        return {}


def _at_one_of(instants: Sequence[int]) -> str | BooleanExpression:
    if not instants:
        return AlwaysTrue()
    return f"at in ({', '.join(repr(instant_literal(one)) for one in instants)})"


def _by_instant(runs: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Parts of the runs, each of one instant: a file that has one alone is replaced whole, and
    PyIceberg never writes a part of it anew."""
    for run in runs:
        for instant in pc.unique(run["at"]):
            yield run.filter(pc.equal(run["at"], instant))


def _field(field: pa.Field, where: str) -> pa.Field:
    """The column in types that Iceberg has for certain: dictionaries as their values, unsigned and
    narrow numbers wider, instants in microseconds."""
    return pa.field(field.name, _kind(field.type, field.name, where))


def _kind(kind: pa.DataType, name: str, where: str) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type, name, where)
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_integer(kind) and kind != pa.uint64():
        return pa.int64() if kind.bit_width == 64 or kind == pa.uint32() else pa.int32()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_kind(kind.value_type, name, where))
    if types.is_struct(kind):
        return pa.struct([_field(kind.field(i), where) for i in range(kind.num_fields)])
    plain = (pa.string(), pa.large_string(), pa.bool_(), pa.float32(), pa.float64(), pa.date32())
    if kind in plain or types.is_decimal128(kind) or types.is_binary(kind):
        return kind
    raise _no_type(f"{name!r} is {kind}", where)


def _typed(run: pa.Table, target: pa.Schema, where: str) -> pa.Table:
    """The run in the table's own types, whose units its readers take for granted."""
    columns = []
    for field in target:
        try:
            columns.append(run[field.name].cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _no_type(f"{field.name!r}: {error}", where) from error
    return pa.table(columns, schema=target)


def _has_list_of_structs(kind: IcebergType) -> bool:
    """Tells whether there is a list of structs anywhere within a type."""
    if isinstance(kind, ListType):
        return kind.element_type.is_struct or _has_list_of_structs(kind.element_type)
    if isinstance(kind, MapType):
        return _has_list_of_structs(kind.key_type) or _has_list_of_structs(kind.value_type)
    if isinstance(kind, StructType):
        return any(_has_list_of_structs(field.field_type) for field in kind.fields)
    return False


def _no_type(why: str, where: str) -> BadRequest:
    return BadRequest(
        f"Iceberg has no type for a column: {why}",
        where=where,
        expected="whole numbers of 64 bits with a sign, doubles, texts, instants in microseconds, "
        "dates, decimals, and lists and structs of them",
        next_step="cast the spine's column, or leave it out",
    )


def _refuse_columns(table: IcebergTable, schema: pa.Schema, where: str) -> None:
    own = {field.name for field in table.schema().fields}
    other = sorted(own ^ set(schema.names))
    if other:
        raise BadRequest(
            f"the table has other columns than the data set: {', '.join(other)}",
            where=where,
            expected="a new table, or one that held the same columns",
            next_step="name another table, or drop this one",
        )
    required = [field.name for field in table.schema().fields if field.required]
    if required or not table.spec().is_unpartitioned():
        raise BadRequest(
            "the table is partitioned, or has required columns",
            where=where,
            expected="a new table, or one that was made for a data set",
            next_step="name another table",
        )


def _identifier(name: str, where: str) -> tuple[str, str]:
    namespace, dot, table = name.rpartition(".")
    if not (namespace and dot and table):
        raise BadRequest(
            f"{name!r} is no name of a table",
            where=where,
            expected="namespace.table",
            next_step="name it as training.churn",
        )
    return namespace, table
