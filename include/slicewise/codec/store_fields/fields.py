"""The fields of an entity's hashes, and of those of a unit, a source and a leaderboard."""

from __future__ import annotations

from slicewise.codec.store_fields.forms import NUMBER, RAW, VECTOR, Field, Where, binary

_AT = "<topic>:<partition>"
_HOT = (Where.HOT,)
_DAY = (Where.DAY,)

APPLIED = Field(
    "applied",
    f"l:{_AT}",
    "applied offset: the last offset of this partition that the entity contains",
    where=(Where.HOT, Where.LIST),
    value=NUMBER,
    in_jvm=True,
)
RUNNING = Field(
    "running",
    f"r:<slice>:{_AT}",
    "running partial; slices are counted since the epoch in units of the unit's slice",
    where=_HOT,
    value=binary(
        "envelopes", "pack_running", "unpack_running", "first offset i64, last offset i64, row"
    ),
)
LIFETIME = Field(
    "lifetime",
    "t",
    "lifetime total, only of a unit with a lifetime: the entity's events of hours before the "
    "total's end, below the "
    "offset vector of the archive version (0: of the start); docs/adr/0042",
    where=_HOT,
    value=binary(
        "envelopes",
        "pack_lifetime",
        "unpack_lifetime",
        "total until i64 (hours since the epoch, a day's first), archive version u64, row",
    ),
)
PENDING = Field(
    "pending",
    f"q:{_AT}:<number>",
    "pending events of the entity beyond the applied offset, in offset order: offset of the last "
    "u64, how many n u32, "
    "n sizes u32, then n members as of event lists (above) over the columns that the unit reads. "
    "At most 64 events and "
    "1,024 bytes, or one larger event; docs/adr/0066",
    where=_HOT,
    value=binary("pending", "pack_pending", "unpack_pending"),
)
PENDING_NUMBERS = Field(
    "pendingNumbers",
    f"o:{_AT}",
    (
        "`<oldest>:<newest>`: the numbers of the fields of pending events of this partition, "
        "without a gap"
    ),
    where=_HOT,
    value=binary("pending", "pack_pending_numbers", "unpack_pending_numbers"),
)
SKIPPED = Field(
    "skipped",
    f"x:{_AT}",
    "`<first>:<last>`, between which offsets pending events of the entity were skipped",
    where=_HOT,
    value=binary("skips", "pack_skip", "unpack_skip"),
    in_jvm=True,
)
PENDING_COUNT = Field(
    "pendingCount",
    "m",
    "number of pending events of the entity, absent = none",
    where=_HOT,
    value=NUMBER,
)
HOUR = Field(
    "hour",
    "h:<hour>",
    "hour total; hours are counted since the epoch",
    where=_DAY,
    value=binary("envelopes", "pack_total", "unpack_total", "archive version u64, row"),
)
_SLICES = "archive version u64, n u32, n {} numbers i64 strictly ascending, block of n rows"
SLICES = Field(
    "slices",
    "s:<hour>",
    "slices of an hour, where the unit keeps that level",
    where=_DAY,
    value=binary("envelopes", "pack_slices", "unpack_slices", _SLICES.format("slice")),
)
MINUTES = Field(
    "minutes",
    "m:<hour>",
    "minutes of an hour, where the unit keeps that level",
    where=_DAY,
    value=binary("envelopes", "pack_slices", "unpack_slices", _SLICES.format("minute")),
)
COMPACTED = Field(
    "compacted",
    "c",
    (
        "canonical msgpack of `[[hour, archive version], …]`, ascending: which hours are "
        "compacted, to which version"
    ),
    where=_DAY,
    value=binary("hours", "pack_hours", "unpack_hours"),
)
DAY_TOTAL = Field(
    "dayTotal",
    "d",
    "day total; counts only while its digest is that of `c`",
    where=_DAY,
    value=binary(
        "envelopes",
        "pack_day",
        "unpack_day",
        "the first 8 bytes of the SHA-256 of the value of `c`, row",
    ),
)
FIVE_DAY_TOTAL = Field(
    "fiveDayTotal",
    "p",
    "five-day total, of a unit with windows of ten days or more, in the hash of its last day; "
    "counts only while its "
    "digest is that of the `c` of its days",
    where=_DAY,
    value=binary(
        "envelopes",
        "pack_day",
        "unpack_day",
        "8 bytes, row: the first 8 of the SHA-256 of its five days' digests, in their order, as "
        "`d` has them; of a day "
        "without `c` eight zero bytes",
    ),
)
LOW = Field(
    "low",
    "w",
    "low-water mark: identity of the newest member that was trimmed",
    where=(Where.LIST,),
    value=RAW,
)
REMEMBERED = Field(
    "remembered",
    f"i:{_AT}",
    "ids of this partition (above)",
    where=(Where.IDS,),
    value=binary("ids", "pack_ids", "unpack_ids"),
)

PUBLISHED_HOUR = Field(
    "publishedHour",
    "<hour>",
    "archive version with which the hour is published to every entity",
    where=(Where.PUBLISHED,),
    value=NUMBER,
)
TOTAL_VERSION = Field(
    "totalVersion",
    "t:<version>",
    "the hour until which totals first named this archive version",
    where=(Where.PUBLISHED,),
    value=NUMBER,
)
VERSION_VECTOR = Field(
    "versionVector",
    "<version>",
    "packed offset vector, which never changes",
    where=(Where.VECTORS,),
    value=VECTOR,
)
ANNOUNCED = Field(
    "announced",
    "count",
    "announcements of archive versions so far",
    where=(Where.VECTORS,),
    value=NUMBER,
)
ENTERED = Field(
    "entered",
    "<instant>",
    "packed committed offsets of the source's topic, which it had by this instant, in "
    "microseconds by the store's clock",
    where=(Where.ENTERED,),
    value=VECTOR,
)
_LEADERBOARD = (Where.LEADERBOARD,)
LEADERBOARD = Field("leaderboard", "b", "the leaderboard", where=_LEADERBOARD, value=RAW)
LEADERBOARD_ORDER = Field(
    "leaderboardOrder",
    "o",
    "its order: a later one replaces it, an earlier one is refused",
    where=_LEADERBOARD,
)
LEADERBOARD_TIME = Field(
    "leaderboardTime",
    "t",
    "time of writing by the store's clock, microseconds",
    where=_LEADERBOARD,
    value=NUMBER,
)
