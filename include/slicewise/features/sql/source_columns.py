"""A column of CREATE SOURCE is a name, a type and a place of the record; whatever else stands there
is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slicewise.errors import DefinitionError
from slicewise.features.schema.types import column_type
from slicewise.features.sql.text import Span, SqlText, Tokens

TYPES = (
    "STRING, BIGINT, INT, SMALLINT, TINYINT, UINT8 to UINT32, DOUBLE, FLOAT, BOOLEAN, DECIMAL(p, s), DATE, "
    "TIMESTAMP_US, TIMESTAMP_MS, TIMESTAMP_S, TIMESTAMP_RFC3339, or ARRAY<…> of one that is no instant"
)
_NAMES = {"varchar": "string", "double precision": "double"}
_ARRAY = re.compile(r"array ?< ?(.+?) ?>|(.+?) ?\[ ?\]")
_NUMERIC = re.compile(r"(?:numeric|dec)(?= ?\()")
_INSTANTS = "say how the instant stands in the record: TIMESTAMP_US, TIMESTAMP_MS, TIMESTAMP_S or TIMESTAMP_RFC3339"
_HINTS = (
    (re.compile(r".*timestamp|.*datetime"), _INSTANTS),
    (re.compile(r"time\b"), "a time of the day is a BIGINT or a STRING"),
    (re.compile(r"(var)?char ?\("), "STRING: lengths of texts are not checked"),
    (
        re.compile(r"(decimal|numeric|dec)\b"),
        "say how many digits it has: DECIMAL(10, 2), of at most 38",
    ),
    (
        re.compile(r"(struct|row|map|object)\b"),
        "declare its members as columns: city STRING PATH '$.address.city'",
    ),
    (re.compile(r"(uint64|int128|uint128|hugeint)"), "BIGINT if it fits, or DECIMAL(20, 0)"),
)


@dataclass(frozen=True)
class SourceColumn:
    """declared: its type, as definitions write it. path: where it stands in the record, if the text
    says."""

    name: str
    declared: str
    required: bool
    path: str | None
    span: Span


def read_column(sql: SqlText, part: Tokens, head: Span) -> SourceColumn:
    """`name TYPE [NOT NULL] [PATH '$.a.b']`, the last two in either order. Raises SqlRefused."""
    if part.word(0).split(" ")[0] in ("WATERMARK", "PRIMARY", "EVENT", "UNIQUE", "CONSTRAINT"):
        raise sql.refused(
            f"{part[0].text.upper()} is not declared here",
            part.at(0),
            "columns only",
            "late events are taken up to max_lateness of their Kafka time, and corrected in their slice: "
            "WITH (timestamp = 'column', max_lateness = '7d')",
        )
    required: bool | None = None
    path: str | None = None
    last = len(part)
    while last > 2:
        if part.word(last - 1) == "NULL":
            if required is not None:
                raise sql.refused("NULL stands twice", part.at(last - 1), "once")
            required = part.word(last - 2) == "NOT"
            last -= 2 if required else 1
        elif part.word(last - 1) == "PATH" or part.word(last - 2) == "PATH":
            at = last - 1 if part.word(last - 1) == "PATH" else last - 2
            if at == last - 1 or part[at + 1].token_type.name != "STRING":
                raise sql.refused(
                    "PATH says where the column stands in the record",
                    part.at(at),
                    "PATH '$.user.id'",
                )
            if path is not None:
                raise sql.refused("PATH stands twice", part.at(at), "one place of the record")
            path, last = str(part[at + 1].text), at
        else:
            break
    if last < 2 or part[0].token_type.name in ("STRING", "NUMBER"):
        at_fault = part.span() if len(part) else head
        raise sql.refused("a column has a name and a type", at_fault, "user_id STRING NOT NULL")
    return SourceColumn(
        str(part[0].text), _type(sql, part.part(1, last)), bool(required), path, part.span()
    )


def _type(sql: SqlText, written: Tokens) -> str:
    span = written.span()
    text = sql.text[span.start : span.end]
    if text.upper() == "INT8":
        message = "INT8 has 8 bytes in some dialects and 8 bits in others"
        raise sql.refused(message, span, "BIGINT or TINYINT")
    declared = _declared(" ".join(text.lower().split()))
    try:
        column_type(declared)
    except DefinitionError as error:
        step = next((hint for pattern, hint in _HINTS if pattern.match(declared)), None)
        raise sql.refused(f"{text} is no column type", span, TYPES, step) from error
    return declared


def _declared(text: str) -> str:
    listed = _ARRAY.fullmatch(text)
    if listed:
        return f"array<{_declared(listed[1] or listed[2])}>"
    return _NAMES.get(text) or _NUMERIC.sub("decimal", text).replace("decimal (", "decimal(")
