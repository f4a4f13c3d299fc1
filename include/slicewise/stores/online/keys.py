"""Every key of an entity has one tag, and one value has exactly one text.

docs/format.md, section "Keys, fields, metadata", gives the grammar with golden vectors. The names
themselves stand in `codec/store_fields`.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote

from slicewise.codec.store_fields import fields as f
from slicewise.codec.store_fields import keys as k
from slicewise.errors import CodecError
from slicewise.offsets.vector import TopicPartition

METADATA = k.METADATA_KEY.form
HOURS = f.COMPACTED.form
TOTAL = f.DAY_TOTAL.form
LIFETIME = f.LIFETIME.form
"""Field of a hot hash: the total of all hours before a total-until hour."""
FIVE_DAY_TOTAL = f.FIVE_DAY_TOTAL.form
"""In the hash of a five-day total's last day."""
LOW = f.LOW.form
"""Field of an event list: the newest identity that was trimmed."""
PENDING_COUNT = f.PENDING_COUNT.form
"""Field of a hot hash: how many events its pending fields hold; absent where it has none."""
PENDING_FIELDS = f.PENDING.prefix
"""Beginning of the names of pending fields, and no others of a hot hash."""
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*", re.ASCII).fullmatch


def _encoded(text: str) -> str:
    if _PLAIN(text):
        return text
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:  # a lone surrogate has no UTF-8
        raise CodecError(
            "text that is no Unicode cannot be a key",
            expected="text without lone surrogates",
            next_step="refuse the record where it is parsed",
        ) from error


def value_text(value: object) -> str:
    """The text of an entity value in a key: integers and booleans as JSON writes them, timestamps
    as microseconds, dates as yyyy-mm-dd, decimals with all digits of their scale, text
    percent-encoded as UTF-8."""
    if isinstance(value, str):
        return _encoded(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return str((value - _EPOCH) // datetime.timedelta(microseconds=1))
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    raise CodecError(
        f"a {type(value).__name__} cannot be part of a key",
        expected="text, an integer, a boolean, a decimal, a date or an instant with a zone",
    )


@lru_cache(maxsize=4096)
def _heads(columns: tuple[tuple[str, str], ...]) -> list[str]:
    return [f"{_encoded(name)}:{_encoded(kind)}:" for name, kind in columns]


def entity_tags(
    columns: Sequence[tuple[str, str]],
    values: Sequence[Sequence[object]],
    partition: int | None = None,
    count: int = 1,
) -> list[bytes]:
    """One tag per entity.

    columns: (name, type) in sorted order; values: per column its value for each entity, as
    `pyarrow.Array.to_pylist` gives them; partition: of the per-partition unit's keys, else None;
    count: how many tags, where there is no column to say it (a global view).
    """
    heads = _heads(tuple(columns))
    suffix = "" if partition is None else f";p={partition}"
    if not columns:
        return [suffix.encode()] * count
    if len(columns) == 1:
        head = heads[0]
        return [f"{head}{value_text(value)}{suffix}".encode() for value in values[0]]
    return [
        (",".join(map(str.__add__, heads, map(value_text, row))) + suffix).encode()
        for row in zip(*values, strict=True)
    ]


def whole_entity(tag: bytes) -> bytes:
    """A partition's tag without the partition."""
    return tag.rpartition(b";p=")[0]


def unit_name(fingerprint: str, build: int) -> str:
    """The unit in its keys, in one of its builds. A unit that comes back begins another build, so
    that what is left of the first, and what is still being written for it, lies where nobody
    reads. build: the deployment version that it began with; 0 for one before any unit was left
    out."""
    return f"{fingerprint}.{build}" if build else fingerprint


def hot_key(store_id: int, tag: bytes, unit: str) -> bytes:
    return k.HOT_KEY.form % (store_id, tag, unit.encode())


@lru_cache(maxsize=4096)
def day_text(day: int) -> str:
    """yyyymmdd of a day counted since 1970-01-01."""
    return datetime.date.fromordinal(_EPOCH_ORDINAL + day).strftime("%Y%m%d")


def day_key(store_id: int, tag: bytes, unit: str, day: int) -> bytes:
    return k.DAY_KEY.form % (store_id, tag, unit.encode(), day_text(day).encode())


def list_key(store_id: int, tag: bytes, unit: str) -> bytes:
    """The hash of an event list: applied offsets, low-water mark."""
    return k.LIST_KEY.form % (store_id, tag, unit.encode())


def members_key(store_id: int, tag: bytes, unit: str) -> bytes:
    """The sorted set of an event list."""
    return k.MEMBERS_KEY.form % (store_id, tag, unit.encode())


def ids_key(store_id: int, tag: bytes, unit: str) -> bytes:
    """The hash of the ids that are remembered of an entity's events, a field per partition
    (`ids_field`)."""
    return k.IDS_KEY.form % (store_id, tag, unit.encode())


def ids_field(topic_partition: TopicPartition) -> bytes:
    return f.REMEMBERED.form % (topic_partition[0].encode(), topic_partition[1])


def applied_field(topic_partition: TopicPartition) -> bytes:
    return f.APPLIED.form % (topic_partition[0].encode(), topic_partition[1])


def running_fields(numbers: Iterable[int], topic_partition: TopicPartition) -> list[bytes]:
    """Fields of one partition, one per slice number."""
    # a topic id has no percent sign
    form = b"%s%%d:%s" % (f.RUNNING.prefix, topic_partition_text(topic_partition))
    return [form % number for number in numbers]


def topic_partition_text(topic_partition: TopicPartition) -> bytes:
    """The partition as the names of fields end with it."""
    return b"%s:%d" % (topic_partition[0].encode(), topic_partition[1])


def pending_field(topic_partition: bytes, number: int) -> bytes:
    """One of the fields that hold pending events of a partition (`topic_partition_text`)."""
    return b"%s%s:%d" % (PENDING_FIELDS, topic_partition, number)


def pending_numbers(topic_partition: bytes) -> bytes:
    """The field that says which pending fields a partition (`topic_partition_text`) has."""
    return f.PENDING_NUMBERS.prefix + topic_partition


def skip_field(topic_partition: TopicPartition) -> bytes:
    return f.SKIPPED.form % (topic_partition[0].encode(), topic_partition[1])


def hour_fields(hour: int) -> tuple[bytes, bytes, bytes]:
    """Hour total, slices, minutes."""
    return f.HOUR.form % hour, f.SLICES.form % hour, f.MINUTES.form % hour


def parse_topic_partition(topic: bytes, partition: bytes) -> TopicPartition:
    return topic.decode(), int(partition)


def published_key(store_id: int, unit: str) -> bytes:
    return k.PUBLISHED_KEY.form % (store_id, unit.encode())


TOTALS = f.TOTAL_VERSION.prefix
"""Beside the published hours: `t:<seq>`, an archive version that totals may name, and the
total-until hour that it was first named for."""


def published_hours(fields: Iterable[tuple[bytes, bytes]]) -> dict[int, int]:
    """Hour -> archive version, of the fields of a `published_key`."""
    return {
        int(hour): int(archive_version)
        for hour, archive_version in fields
        if not hour.startswith(TOTALS)
    }


def offset_vectors_key(store_id: int, source: str) -> bytes:
    return k.VECTORS_KEY.form % (store_id, _encoded(source).encode())


def entered_key(store_id: int, source: str, hour: int) -> bytes:
    """Entries of a source's committed offsets in an hour of the store's clock."""
    return k.ENTERED_KEY.form % (store_id, _encoded(source).encode(), hour)


def leaderboard_key(store_id: int, name: str, end_us: int | None = None) -> bytes:
    """A leaderboard; with a window end, its rows remembered for corrections."""
    if end_us is None:
        return k.LEADERBOARD_KEY.form % (store_id, name.encode())
    return k.PAST_LEADERBOARD_KEY.form % (store_id, name.encode(), end_us)


def manifest_key(digest: str) -> bytes:
    return k.MANIFEST_KEY.form % digest.encode()


def status_key(part: str) -> bytes:
    return k.STATUS_KEY.form % part.encode()
