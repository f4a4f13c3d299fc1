"""Entities of a request log become typed columns, and values the JSON that the API writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from slicewise.client.instants import instant_us
from slicewise.codec.plain import converter, json_safe
from slicewise.features.schema.types import DATE, TIMESTAMP, arrow_type, decimal_parts


def entity_columns(entities: Sequence[str], types: Mapping[str, str]) -> dict[str, pa.Array]:
    """Columns of these entities, each a JSON object; types: declared, of every column."""
    given = [json.loads(text) for text in entities]
    return {name: _column([one[name] for one in given], kind) for name, kind in types.items()}


def is_entity(text: str) -> bool:
    """Tells whether a text is a JSON object of scalars, or of lists of them."""
    try:
        entity = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(entity, dict) and not any(isinstance(v, dict) for v in entity.values())


def has_lists(entity: str) -> bool:
    """Tells whether filters are asked for several values at once."""
    return any(isinstance(value, list) for value in json.loads(entity).values())


def _column(values: Sequence[Any], kind: str) -> pa.Array:
    wanted = arrow_type(kind)
    if kind == TIMESTAMP:
        instants = [None if value is None else instant_us(value) for value in values]
        return pa.array(instants, pa.int64()).cast(wanted)
    if kind == DATE:
        return pa.array(values, pa.string()).cast(wanted)
    if decimal_parts(kind):
        numbers = [None if value is None else Decimal(str(value)) for value in values]
        return pa.array(numbers, wanted)
    return pa.array(values, wanted)


def answer_texts(table: pa.Table, refs: Sequence[str], defaults: Mapping[str, Any]) -> list[str]:
    """Per row the member `values` of the API's answer. defaults: answered in place of null."""
    import msgspec

    columns = []
    for ref in refs:
        column = table[ref]
        values = [json_safe(value) for value in converter(column.type)(column.combine_chunks())]
        default = defaults.get(ref)
        columns.append([default if value is None else value for value in values])
    encode = msgspec.json.Encoder().encode
    return [
        encode(dict(zip(refs, row, strict=True))).decode() for row in zip(*columns, strict=True)
    ]
