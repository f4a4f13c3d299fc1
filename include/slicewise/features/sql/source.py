"""CREATE SOURCE says what sw.KafkaSource says, and nothing else."""

from __future__ import annotations

from typing import Any

from slicewise.errors import DefinitionError
from slicewise.features.definitions import KafkaSource
from slicewise.features.naming import Location
from slicewise.features.planner import plan_source
from slicewise.features.sql.statements import Option, Statement, refuse_unknown_options
from slicewise.features.sql.text import SqlText, Tokens
from slicewise.features.types import column_type

_TEXTS = ("topic", "timestamp", "max_lateness", "max_ahead", "owner", "format", "registry")
_OPTIONS = (*_TEXTS, "allow_nan", "connector")
_HINTS = {
    "properties.": "brokers are the platform's setting (SLICEWISE_KAFKA_BOOTSTRAP): leave it out",
    "scan.": "a view's history is built from the archive when it is applied: leave it out",
    "value.": "format = 'json', or 'avro' or 'protobuf' with registry = 'http://…'",
}
_TYPES = {"VARCHAR": "string", "DOUBLE PRECISION": "double"}


def read_source(sql: SqlText, statement: Statement, location: Location) -> KafkaSource:
    """The source of a CREATE SOURCE statement. Raises SqlRefused."""
    refuse_unknown_options(sql, statement.options, _OPTIONS, _HINTS)
    connector = statement.options.get("connector")
    if connector is not None and connector.value.lower() != "kafka":
        raise sql.refused(f"connector {connector.value!r} is not there", connector.span, "'kafka'")
    schema: dict[str, str] = {}
    required: list[str] = []
    paths: dict[str, str] = {}
    for part in statement.body.split(","):
        column, declared, needed = _column(sql, _without_path(sql, part, paths), statement)
        if column in schema:
            raise sql.refused(f"column {column!r} stands twice", part.at(0), "each column once")
        schema[column] = declared
        if needed:
            required.append(column)
    if "timestamp" not in statement.options:
        raise sql.refused(
            "the source does not say which column is the event time",
            statement.head,
            "WITH (timestamp = 'column', …), a column of type TIMESTAMP_US, _MS, _S or _RFC3339, or 'kafka'",
        )
    given: dict[str, Any] = {n: statement.options[n].value for n in _TEXTS if n in statement.options}
    return _made(sql, statement, location, {"schema": schema, "required": required, "paths": paths, **given})


def _made(
    sql: SqlText,
    statement: Statement,
    location: Location,
    given: dict[str, Any],
) -> KafkaSource:
    allowed = _listed(statement.options.get("allow_nan"))
    try:
        source = KafkaSource(statement.name, allow_nan=allowed, location=location, **given)
        plan_source(source)
        return source
    except DefinitionError as error:
        at = next((o.span for n, o in statement.options.items() if n in f"{error.what} {error.where}"), statement.head)
        raise sql.refused(error.what, at, error.expected, error.next_step) from error


def _listed(option: Option | None) -> list[str]:
    return [] if option is None else [name.strip() for name in option.value.split(",")]


def _without_path(sql: SqlText, part: Tokens, paths: dict[str, str]) -> Tokens:
    """`name TYPE PATH '$.a.b'`: where the column stands in the record, as SQL's JSON_TABLE writes it."""
    if "PATH" not in (part.word(index) for index in range(2, len(part))):
        return part
    at = next(index for index in range(2, len(part)) if part.word(index) == "PATH")
    if at + 1 >= len(part) or part[at + 1].token_type.name != "STRING":
        raise sql.refused("PATH says where the column stands in the record", part.at(at), "PATH '$.user.id'")
    paths[str(part[0].text)] = str(part[at + 1].text)
    return Tokens(sql, [*part.all[:at], *part.all[at + 2 :]])


def _column(sql: SqlText, part: Tokens, statement: Statement) -> tuple[str, str, bool]:
    if part.word(0) in ("WATERMARK", "PRIMARY", "EVENT"):
        raise sql.refused(
            f"{part[0].text.upper()} is not declared here",
            part.at(0),
            "columns only",
            "late events are taken up to max_lateness of their Kafka time, and corrected in their slice: "
            "WITH (timestamp = 'column', max_lateness = '7d')",
        )
    if len(part) < 2:
        at = part.span() if len(part) else statement.head
        raise sql.refused("a column has a name and a type", at, "user_id STRING NOT NULL")
    last = len(part)
    needed = (part.word(last - 2), part.word(last - 1)) == ("NOT", "NULL")
    if needed:
        last -= 2
    written = part.part(1, last)
    if not len(written):
        raise sql.refused("a column has a name and a type", part.span(), "user_id STRING NOT NULL")
    text = sql.text[written.span().start : written.span().end]
    if text.upper() == "INT8":
        said = "INT8 has 8 bytes in some dialects and 8 bits in others"
        raise sql.refused(said, written.span(), "BIGINT or TINYINT")
    declared = _TYPES.get(" ".join(text.upper().split()), text.lower())
    try:
        column_type(declared)
    except DefinitionError as error:
        hint = "say how the instant stands in the JSON: TIMESTAMP_US, TIMESTAMP_MS, TIMESTAMP_S or TIMESTAMP_RFC3339"
        step = hint if text.upper().startswith("TIMESTAMP") else error.next_step
        raise sql.refused(f"{text} is no column type", written.span(), error.expected, step) from error
    return str(part[0].text), declared, needed
