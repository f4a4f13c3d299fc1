"""A published record has one text: equal ticks give equal bytes. docs/format.md, "Published
records", gives each.

Texts are built by whole columns; only what JSON must escape, and what is nested, goes through
Python row by row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slicewise.codec.plain import converter, json_safe
from slicewise.offsets.vector import OffsetVector

_ESCAPED = '["\\\\\\x00-\\x1f]'
Errors = Mapping[str, Mapping[int, str]]
"""Column -> row -> why its value is null."""


def texts_of(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The JSON text of each value."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(array.cast(pa.string()), "null")
    if pa.types.is_float64(kind):
        coded = array.dictionary_encode()  # a number is written once, however many have it
        texts = [
            repr(value) if value - value == 0 else _text(value)
            for value in coded.dictionary.to_pylist()
        ]
        return pc.fill_null(pa.array(texts, pa.string()).take(coded.indices), "null")
    if pa.types.is_string(kind) and not pc.any(pc.match_substring_regex(array, _ESCAPED)).as_py():
        quoted = pc.binary_join_element_wise('"', array, '"', "")
        return pc.fill_null(quoted, "null")
    return pa.array([_text(value) for value in converter(kind)(array)], pa.string())


def objects_of(table: pa.Table, rows: int) -> pa.Array:
    """Per row a JSON object of its columns, in their order."""
    parts: list[pa.Array | str] = []
    for i, name in enumerate(table.column_names):
        parts += [("{" if not i else ",") + _text(name) + ":", texts_of(table.column(name))]
    if not parts:
        return pa.array(["{}"] * rows, pa.string())
    return pc.binary_join_element_wise(*parts, "}", "")


def keys_of(
    view: str, window: str, starts: pa.Array, ends: pa.Array, entities: pa.Table
) -> list[bytes]:
    """Keys of records: view, window, entity. `window` is the ending of its columns' names."""
    head = '{"view":' + _text(view) + ',"window":' + _text(window) + ',"start":'
    who = objects_of(entities, len(starts))
    text = pc.binary_join_element_wise(
        head,
        starts.cast(pa.string()),
        ',"end":',
        ends.cast(pa.string()),
        ',"entity":',
        who,
        "}",
        "",
    )
    return list(text.cast(pa.binary()).to_pylist())


def values_of(
    definition: str,
    offset_vector: OffsetVector,
    values: pa.Table,
    errors: Errors,
    *,
    old: pa.Table | None = None,
    causes: Sequence[tuple[str, int, int]] | None = None,
) -> list[bytes]:
    """Values of records; of corrections with the old values and the late event of each."""
    n = values.num_rows
    kind = "window" if old is None else "correction"
    head = f'{{"version":{version_of(offset_vector)},"kind":"{kind}","values":'
    parts: list[pa.Array | str] = [head, objects_of(values, n)]
    if old is not None and causes is not None:
        parts += [
            ',"old":',
            objects_of(old, n),
            ',"cause":',
            pa.array([_text(list(c)) for c in causes], pa.string()),
        ]
    if any(errors.values()):
        parts += [',"errors":', _errors(errors, n)]
    parts += [f',"definition":"{definition}","cover":{offset_vector_text(offset_vector)}}}']
    return list(pc.binary_join_element_wise(*parts, "").cast(pa.binary()).to_pylist())


def version_of(offset_vector: OffsetVector) -> int:
    """Grows with the offset vector: of two records of one key the one with the larger version knows
    more events."""
    return sum(offset_vector.offsets.values())


def offset_vector_text(offset_vector: OffsetVector) -> str:
    """An offset vector as JSON: {topic id: {partition: first offset not contained}}."""
    return _text(offset_vector.nested())


def _errors(errors: Errors, n: int) -> pa.Array:
    rows: list[dict[str, str]] = [{} for _ in range(n)]
    for column, codes in errors.items():
        for row, code in codes.items():
            rows[row][column] = code
    return pa.array([_text(row) for row in rows], pa.string())


def _text(value: object) -> str:
    return json.dumps(json_safe(value), ensure_ascii=False, separators=(",", ":"))
