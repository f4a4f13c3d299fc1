"""Every key, field and metadata entry of the online store stands here once: its name, its value and
one sentence.

`stores/online/keys.py` and the metadata are written and read by these entries.
`docs/store_fields.py` makes the tables of docs/format.md and the JVM's `StoreFields.java` from
them.

Doors: fields, keys, metadata.
"""

from __future__ import annotations

from slicewise.codec.store_fields import fields, keys, metadata
from slicewise.codec.store_fields.forms import Field, Key, Name, Value, Where

__all__ = [
    "FIELDS",
    "KEYS",
    "METADATA_BY_LETTER",
    "Field",
    "Key",
    "Name",
    "Value",
    "Where",
    "fields",
    "fields_of",
    "keys",
    "metadata",
]

KEYS: tuple[Key, ...] = tuple(entry for entry in vars(keys).values() if isinstance(entry, Key))
FIELDS: tuple[Field, ...] = tuple(
    entry
    for module in (fields, metadata)
    for entry in vars(module).values()
    if isinstance(entry, Field)
)


def fields_of(where: Where) -> tuple[Field, ...]:
    """The fields of one kind of hash, in the order of the table."""
    return tuple(entry for entry in FIELDS if where in entry.where)


METADATA_BY_LETTER = {entry.letter: entry for entry in fields_of(Where.METADATA) if entry.slots}
