"""A spine is entities and instants without nulls or guesses: every row asks one question, also if
rows repeat."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from slicewise.aggregates.kernel.kinds import named
from slicewise.errors import BadRequest, SlicewiseError
from slicewise.features.schema.types import BOOLEAN, DATE, STRING, TIMESTAMP, arrow_type
from slicewise.offsets.token import decode_all
from slicewise.training.csv_form import is_csv
from slicewise.training.ranges import Ints
from slicewise.training.tables.instants import as_timestamps, times_us
from slicewise.training.tables.read import as_table, csv_texts
from slicewise.training.tables.texts import instants_of_texts, typed_texts
from slicewise.training.tables.tokens import AlikeTokens as AlikeTokens
from slicewise.training.tables.tokens import BadToken
from slicewise.training.tables.tokens import NoToken as NoToken
from slicewise.training.tables.tokens import TokenColumns as TokenColumns
from slicewise.training.tables.wire import days

AT, TOKEN = "at", "token"
SPINE = "spine"


@dataclass(frozen=True)
class Spine:
    """Rows to be answered for: entity columns of their declared types, `at`, and what else was
    given.

    table: all columns as given, entity columns cast and `at` as timestamps in UTC. at_us: int64.
    """

    table: pa.Table
    at_us: Ints
    tokens_read: TokenColumns | None = field(default=None, repr=False, compare=False)
    """Tokens of its rows, if they were read already."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def tokens(self) -> TokenColumns:
        """The tokens of its `token` column, per row one of each unit. Raises BadRequest."""
        return self.tokens_read or tokens_in(self.table)

    def digest(self) -> str:
        """SHA-256 of the spine's Arrow form: equal spines, equal digests, in every process."""
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table.combine_chunks())
        return hashlib.sha256(sink.getvalue()).hexdigest()


def tokens_in(table: pa.Table) -> TokenColumns:
    """The tokens of the column `token`. Raises BadRequest."""
    if TOKEN not in table.column_names:
        raise BadRequest(
            "the spine has no tokens",
            where="spine",
            expected=f"a column {TOKEN!r} with the tokens that answers carried",
            next_step='add it, or ask with knowledge="event_time"',
        )
    column = table[TOKEN]
    if column.null_count or _family(column.type) != "text":
        _refuse_first(column)
    try:
        return TokenColumns.of(column)
    except BadToken:
        _refuse_first(column)
        raise


def _refuse_first(column: pa.ChunkedArray) -> None:
    """Raises BadRequest for the first row that holds no token, if there is one."""
    for row, text in enumerate(column.to_pylist()):
        if not isinstance(text, str):
            raise BadRequest(
                f"{text!r} is no token",
                where=f"spine, column {TOKEN!r}, row {row}",
                expected="the text that an answer carried",
                next_step="drop the row",
            )
        try:
            decode_all(text)
        except BadRequest as error:
            where = f"spine, column {TOKEN!r}, row {row}"
            raise BadRequest(
                error.what, where=where, expected=error.expected, next_step=error.next_step
            ) from error


@dataclass(frozen=True)
class Given:
    """A spine as it was given: a table whose `at` holds instants; nobody has looked at its entity
    yet.

    is_text: its columns are texts of a file that has no types.
    """

    table: pa.Table
    at_us: Ints
    is_text: bool = False

    @cached_property
    def tokens(self) -> TokenColumns:
        """The tokens of its `token` column. Raises BadRequest."""
        return tokens_in(self.table)

    def label(self, name: str) -> pa.ChunkedArray:
        """A column that no definition types, with the values that a data set has of it."""
        own = self.table.select([name])
        return (typed_texts(own, {}, ()) if self.is_text else own)[name]


def given_spine(given: object, others: Sequence[str] = (), where: str = SPINE) -> Given:
    """Reads what can be seen of a spine without knowing what is asked of it. others: columns that
    it needs, if known.

    given: as of read_spine. Raises BadRequest for what is no table, for a name that stands twice,
    without `at`, and for an `at` that is null, no instant or without zone. One that was read
    already is given back.
    """
    if isinstance(given, Given):
        return given
    is_text = isinstance(given, str | Path) and is_csv(Path(given))
    table = csv_texts(Path(str(given)), where) if is_text else as_table(given, where)
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadRequest(
            f"two columns are named {twice[0]!r}",
            where=where,
            expected="each name once",
            next_step="rename one",
        )
    if AT not in names:
        missing = [name for name in (*others, AT) if name not in names]
        raise BadRequest(
            f"the {where if where == SPINE else f'table of {where}'} lacks {', '.join(missing)}",
            where=where,
            expected=f"the columns {', '.join(dict.fromkeys((*others, AT)))}"
            if others
            else "the entity's columns, and at",
            next_step=(
                f"add {'it' if len(missing) == 1 else 'them'}; it has "
                f"{', '.join(names) or 'no columns'}"
            ),
        )
    column = f"{where}, column {AT!r}"
    return Given(
        table, times_us(instants_of_texts(table[AT]) if is_text else table[AT], column), is_text
    )


def read_spine(
    given: object,
    entity: Mapping[str, str],
    questions: Mapping[str, str] = MappingProxyType({}),
    where: str = SPINE,
) -> Spine:
    """Reads the spine: an Arrow table, a pandas frame, a list of dicts, or a file's path (Parquet,
    Feather or CSV).

    entity: declared type of each entity column. questions: of each column that features are asked
    by, which may hold nulls, and lists. Raises BadRequest for a missing column, a null, a
    value that is not of its column's type, and an instant without zone.
    """
    table_given = (
        given if isinstance(given, Given) else given_spine(given, (*entity, *questions), where)
    )
    table = table_given.table
    missing = [name for name in (*entity, *questions) if name not in table.column_names]
    if missing:
        raise BadRequest(
            f"the {where if where == SPINE else f'table of {where}'} lacks {', '.join(missing)}",
            where=where,
            expected=f"the columns {', '.join(dict.fromkeys((*entity, *questions, AT)))}",
            next_step=(
                f"add {'it' if len(missing) == 1 else 'them'}; it has "
                f"{', '.join(table.column_names) or 'none'}"
            ),
        )
    if table_given.is_text:
        table = typed_texts(table, {**questions, **entity}, (AT, TOKEN))
    for name, kind in entity.items():
        table = _put(table, name, typed(table[name], name, kind, where))
    for name, kind in questions.items():
        if name not in entity:
            table = _put(table, name, _question_values(table[name], name, kind, where))
    table = _put(table, AT, pa.chunked_array([as_timestamps(table_given.at_us)]))
    # What pandas writes beside a schema differs from version to version, and says nothing here.
    return Spine(
        table.replace_schema_metadata(None).combine_chunks(),
        table_given.at_us,
        vars(table_given).get("tokens"),
    )


def typed(column: pa.ChunkedArray, name: str, kind: str, where: str) -> pa.ChunkedArray:
    """An entity column in its declared type, without nulls."""
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        raise BadRequest(
            f"{column.null_count} of {len(column)} values are null",
            where=f"{where}, column {name!r}, row {row}",
            expected="an entity in every row",
            next_step="drop the rows without entity",
        )
    if kind == TIMESTAMP:
        return pa.chunked_array([as_timestamps(times_us(column, f"{where}, column {name!r}"))])
    if kind == DATE:
        column = pa.chunked_array([days(column.combine_chunks(), f"{where}, column {name!r}")])
    if len(column) and _family(column.type) != _FAMILIES.get(kind, "number"):
        # An integer is not the text of it: the store would know another entity.
        raise _mistyped(column, name, kind, where)
    try:
        return column.cast(arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _mistyped(column, name, kind, where) from error


def _question_values(column: pa.ChunkedArray, name: str, kind: str, where: str) -> pa.ChunkedArray:
    """A column of questions: values of the declared type, nulls, or lists of these."""
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        if pa.types.is_null(column.type):
            return column.cast(arrow_type(kind))
        present = typed(column.drop_null(), name, kind, where)
        at = np.cumsum(column.is_valid().to_numpy()) - 1
        return present.take(pa.array(at, mask=np.asarray(column.is_null())))
    lists = column.combine_chunks()
    values = _question_values(
        pa.chunked_array([lists.flatten()]), name, kind, where
    ).combine_chunks()
    ends = np.append(0, np.cumsum(lists.value_lengths().fill_null(0).to_numpy())).astype(np.int32)
    bounds = pa.array(ends, mask=np.append(np.asarray(lists.is_null()), False))
    return pa.chunked_array([pa.ListArray.from_arrays(bounds, values)])


_FAMILIES = {STRING: "text", BOOLEAN: "boolean", DATE: "date"}


def _family(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _family(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date32(kind):
        return "date"
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return "number" if is_number or pa.types.is_decimal(kind) else "other"


def _mistyped(column: pa.ChunkedArray, name: str, kind: str, where: str) -> SlicewiseError:
    return BadRequest(
        f"the column is of type {named(column.type)}",
        where=f"{where}, column {name!r}",
        expected=f"{kind}, as the view's entity is declared",
        next_step="cast the column",
    )


def _put(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)
