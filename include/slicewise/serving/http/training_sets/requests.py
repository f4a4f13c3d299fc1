"""A request for a training set is checked before anything is kept; what only the archive can tell
is left to its worker.

A client names no file of this machine and no query: both would read what it may not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast
from urllib.parse import parse_qsl

import msgspec

from slicewise.client.instants import instant_us
from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.serving.answering.requests import MAX_BODY_BYTES, MAX_FEATURES
from slicewise.serving.http.negotiation import Headers

UPLOADS: Mapping[bytes, str] = {
    b"application/vnd.apache.parquet": "spine.parquet",
    b"application/vnd.apache.arrow.file": "spine.arrow",
    b"application/vnd.apache.arrow.stream": "spine.arrows",
    b"text/csv": "spine.csv",
}
"""Media types of a spine as a body, and the file that it is kept in."""
ROWS = "spine.msgpack"
"""File of rows that stood in a request."""
ICEBERG = "iceberg:"
_EXPECTED = (
    '{"features": "a set" or ["view:column", …], "spine": [{…}, …]}; knowledge, known_at, '
    "as_of_definition, engine, archive, format"
)
_SEE = "see /openapi.json"
Names = str | Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_FEATURES)]
Rows = Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]


class TrainingSetOptions(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Options of a training set, as `slicewise dataset build` has them."""

    features: Names
    knowledge: Literal["event_time", "token", "arrival"] = "event_time"
    known_at: str | int | None = None
    as_of_definition: str | int | None = None
    engine: Literal["auto", "local", "spark"] = "auto"
    archive: bool = True
    format: Literal["parquet", "csv"] = "parquet"


class TrainingSetBody(TrainingSetOptions, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/training-sets`: options, and the spine."""

    spine: Rows | dict[str, list[Any]] | str


_JSON = msgspec.json.Decoder(TrainingSetBody)
_MSGPACK = msgspec.msgpack.Decoder(TrainingSetBody)

_KEY = re.compile(rb"[!-~]{1,200}")
_WHOLE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Wanted:
    """A checked request. rows: the spine's, or its columns, as they are kept; None where it is a
    table."""

    options: TrainingSetOptions
    spine: str
    rows: bytes | None = None


def upload_of(content_type: bytes) -> str | None:
    """The file that a body of this media type is kept in; None: it is no spine by itself."""
    return UPLOADS.get(content_type.partition(b";")[0].strip().lower())


def key_of(headers: Headers) -> str | None:
    """The key by which a client sends a request again; None where it gives none. Raises
    BadRequest."""
    given = [value for name, value in headers if name == b"idempotency-key"]
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise BadRequest(
            "the key is none",
            where="Idempotency-Key",
            expected="one, of 1 to 200 printable characters of ASCII, without spaces",
            next_step="make one of its own for each training set, as a UUID",
        )
    return given[0].decode("ascii")


def parse(body: bytes, *, msgpack: bool, namespaces: Sequence[str]) -> Wanted:
    """The request of a body. namespaces: whose tables a client may name. Raises BadRequest."""
    try:
        decoded = (_MSGPACK if msgpack else _JSON).decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequest(
            f"the body is no request for a training set: {error}",
            where="body",
            expected=_EXPECTED,
            next_step=_SEE,
        ) from error
    _check(decoded)
    if isinstance(decoded.spine, str):
        _refuse_text(decoded.spine, namespaces)
        return Wanted(decoded, decoded.spine)
    if isinstance(decoded.spine, dict):
        _check_columns(decoded.spine)
    try:  # columns stay columns: rows would repeat their names
        return Wanted(decoded, ROWS, msgspec.msgpack.encode(decoded.spine))
    except OverflowError as error:
        raise BadRequest(
            "a whole number beyond 64 bits",
            where="spine",
            expected="-2^63 to 2^63 - 1",
            next_step="write it as text, where the entity's column is one",
        ) from error


def parse_query(query: bytes, spine: str) -> Wanted:
    """The request of a spine that is a body, kept in the file `spine`. Raises BadRequest."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    except ValueError as error:
        raise _bad_query(str(error) or "it is empty") from error
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _bad_query(f"{key!r} stands twice")
        values[key] = value
    for name in ("known_at", "as_of_definition"):
        if _WHOLE.fullmatch(str(values.get(name, ""))):
            values[name] = int(values[name])
    features = values.get("features", "")
    if "," in features or ":" in features:
        values["features"] = [part for part in features.split(",") if part]
    try:
        options = msgspec.convert(values, TrainingSetOptions, strict=False)
    except msgspec.ValidationError as error:
        raise _bad_query(str(error)) from error
    _check(options)
    return Wanted(options, spine)


def resolved(options: TrainingSetOptions, deployment: Deployment) -> tuple[str, ...]:
    """The refs that are wanted. Raises UnknownName."""
    names = options.features
    refs = deployment.feature_set(names).features if isinstance(names, str) else tuple(names)
    for ref in refs:
        deployment.resolve(ref)
    return refs


def _check(options: TrainingSetOptions) -> None:
    names = options.features
    if isinstance(names, str) and ":" in names:
        options.features = names = [names]
    if isinstance(names, list) and len(set(names)) < len(names):
        twice = next(ref for ref in names if names.count(ref) > 1)
        raise BadRequest(
            f"{twice!r} is wanted twice",
            where="features",
            expected="names that differ",
            next_step="leave it out once",
        )
    for name in ("known_at", "as_of_definition"):
        given = getattr(options, name)
        if given is not None:
            _check_instant(name, given)
    if options.known_at is not None and options.knowledge == "token":
        raise BadRequest(
            "known_at beside knowledge by tokens",
            where="known_at",
            expected='knowledge "arrival" beside it',
            next_step="leave known_at out, or the tokens",
        )


def _check_instant(name: str, given: str | int) -> None:
    try:
        instant_us(given)
    except BadRequest as error:
        raise BadRequest(
            error.what, where=name, expected=error.expected, next_step=f"correct {name}"
        ) from error


def _check_columns(columns: Mapping[str, Sequence[Any]]) -> None:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        raise BadRequest(
            f"columns of several lengths: {shown}",
            where="spine",
            expected="columns of one length",
            next_step="write null where a row lacks a value",
        )
    if not any(lengths.values()):
        raise BadRequest(
            "the spine has no rows",
            where="spine",
            expected="at least one entity at one instant",
            next_step="see how it was made: a filter or a join may have left nothing",
        )


def _refuse_text(spine: str, namespaces: Sequence[str]) -> None:
    """Refuses what would read on this machine what a client may not read."""
    table = spine.removeprefix(ICEBERG).partition("@")[0]
    namespace = table.rpartition(".")[0]
    if spine.startswith(ICEBERG) and namespace in namespaces:
        return
    opened = ", ".join(namespaces) or "none"
    is_table = spine.startswith(ICEBERG)
    raise BadRequest(
        f"a client may not read namespace {namespace!r}"
        if is_table
        else "a spine over HTTP is no file of the server and no query",
        where="spine",
        expected=f"rows, columns, a body of the spine itself, or {ICEBERG}namespace.table of a "
        f"namespace that is open to clients ({opened})",
        next_step="have SLICEWISE_TRAINING_SETS_NAMESPACES name it, or send the rows"
        if is_table
        else "run the query where the data is, and send its rows",
    )


def _bad_query(why: str) -> BadRequest:
    return BadRequest(
        f"the query is no request for a training set: {why}",
        where="query",
        expected="features=a set, or features=view:column,…; knowledge, known_at, "
        "as_of_definition, engine, archive, format",
        next_step=_SEE,
    )


_MEANING = {
    "features": "a feature set's name, or refs",
    "knowledge": "event_time: all that is known now of events before a row's instant; token: what "
    "the answers had whose tokens stand in the spine; arrival: what the stream had applied by then",
    "known_at": "by arrival: one instant for all rows, RFC 3339 or microseconds",
    "as_of_definition": "with the deployment that stood at this instant",
    "engine": "auto chooses by size; the bits are the same",
    "archive": "false refuses what is not archived yet; else the log is archived first",
    "format": "the form of its data",
    "spine": "rows, or columns, with the entity's columns, `at` and what is to be kept; or "
    "`iceberg:namespace.table`, of a namespace that the settings open to clients",
}


def query_schema() -> list[dict[str, Any]]:
    """Parameters of the query beside a spine that is the body, as OpenAPI has them."""
    _, components = msgspec.json.schema_components([TrainingSetOptions])
    options = components["TrainingSetOptions"]
    return [
        {
            "name": name,
            "in": "query",
            "schema": {"type": "string"} if name == "features" else member,
            "description": "beside a spine that is the body: " + _MEANING[name],
        }
        for name, member in options["properties"].items()
    ]


def body_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """The body's JSON schema, and those that it refers to."""
    _, components = msgspec.json.schema_components(
        [TrainingSetBody], ref_template="#/components/schemas/{name}"
    )
    body = cast("dict[str, Any]", components.pop("TrainingSetBody"))
    body["description"] = f"At most {MAX_BODY_BYTES} bytes; a larger spine is a body of its own."
    for name, member in body["properties"].items():
        member["description"] = _MEANING[name]
    return body, components
