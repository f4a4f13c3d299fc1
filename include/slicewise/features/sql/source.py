"""CREATE SOURCE says what sw.KafkaSource says, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicewise.errors import DefinitionError
from slicewise.features.declare.definitions import KafkaSource
from slicewise.features.naming import Location
from slicewise.features.plan.planner import plan_source
from slicewise.features.schema.dedupe import MOST, WITHIN, Dedupe
from slicewise.features.schema.types import KAFKA_TIME
from slicewise.features.sql.source_columns import SourceColumn, read_column
from slicewise.features.sql.statements import (
    Statement,
    expectations,
    listed,
    refuse_unknown_options,
    tags,
)
from slicewise.features.sql.text import Span, SqlText

_TEXTS = (
    "topic",
    "timestamp",
    "max_lateness",
    "max_ahead",
    "owner",
    "format",
    "registry",
    "description",
    "history",
    "history_until",
)
_DEDUPE = ("dedupe", "dedupe_within", "dedupe_most")
_OPTIONS = (*_TEXTS, *_DEDUPE, "allow_nan", "connector", "expect", "tags")
_HINTS = {
    "properties.": "brokers are the platform's setting (SLICEWISE_KAFKA_BOOTSTRAP): leave it out",
    "scan.": "a view's history is built from the archive when it is applied: leave it out",
    "value.": "format = 'json', or 'avro' or 'protobuf' with registry = 'http://…'",
}


def read_source(sql: SqlText, statement: Statement, location: Location) -> KafkaSource:
    """The source of a CREATE SOURCE statement. Raises SqlRefused."""
    refuse_unknown_options(sql, statement.options, _OPTIONS, _HINTS)
    connector = statement.options.get("connector")
    if connector is not None and connector.value.lower() != "kafka":
        raise sql.refused(f"connector {connector.value!r} is not there", connector.span, "'kafka'")
    columns = [read_column(sql, part, statement.head) for part in statement.body.split(",")]
    for column in columns:
        if next(other for other in columns if other.name == column.name) is not column:
            raise sql.refused(
                f"column {column.name!r} stands twice", column.span, "each column once"
            )
    if "timestamp" not in statement.options:
        raise sql.refused(
            "the source does not say which column is the event time",
            statement.head,
            (
                "WITH (timestamp = 'column', …), a column of type TIMESTAMP_US, _MS, _S or "
                "_RFC3339, or 'kafka'"
            ),
        )
    options: dict[str, Any] = {
        n: statement.options[n].value for n in _TEXTS if n in statement.options
    }
    required = [column.name for column in columns if column.required]
    allowed = listed(statement.options.get("allow_nan"))
    dedupe = _dedupe(sql, statement)
    expect = expectations(sql, statement.options.get("expect"), f"source {statement.name!r}")
    given_tags = tags(sql, statement.options.get("tags"), f"source {statement.name!r}")
    try:
        source = KafkaSource(
            statement.name,
            required=required,
            allow_nan=allowed,
            dedupe=dedupe,
            expect=expect,
            tags=given_tags,
            location=location,
            **_shape(columns),
            **options,
        )
        plan_source(source)
        return source
    except DefinitionError as error:
        raise sql.refused(
            error.what, _fault(statement, columns, error), error.expected, error.next_step
        ) from error


def _dedupe(sql: SqlText, statement: Statement) -> Dedupe | None:
    column, within, most = (statement.options.get(name) for name in _DEDUPE)
    if column is None:
        given = within or most
        if given is not None:
            raise sql.refused(
                "it is not said by which column an event is known",
                given.span,
                "dedupe = 'event_id' beside it",
            )
        return None
    if most is not None and not (most.value.isascii() and most.value.isdigit()):
        raise sql.refused(
            f"{most.value!r} is no number of events", most.span, "a whole number, such as '1000'"
        )
    return Dedupe(
        column.value,
        WITHIN if within is None else within.value,
        MOST if most is None else int(most.value),
    )


def _shape(columns: Sequence[SourceColumn]) -> dict[str, Any]:
    paths = {column.name: column.path for column in columns if column.path is not None}
    return {"schema": {column.name: column.declared for column in columns}, "paths": paths}


def _fault(statement: Statement, columns: Sequence[SourceColumn], error: DefinitionError) -> Span:
    """The place of an error: the first column with which the columns so far go wrong, else the
    option that it names."""
    for count, column in enumerate(columns, 1):
        try:
            KafkaSource(
                statement.name, timestamp=KAFKA_TIME, location=None, **_shape(columns[:count])
            )
        except DefinitionError as refused:
            if refused.what == error.what:
                return column.span
    message = f"{error.what} {error.where}"
    return next(
        (option.span for name, option in statement.options.items() if name in message),
        statement.head,
    )
