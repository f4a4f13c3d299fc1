"""Bytes to columns and back: the rows of a unit, and the values that the online store keeps.

`Layout`, `Members` and the envelopes are names of the room itself. A name is looked up when it is
first asked for: Airflow's environment has neither numpy nor msgpack, and reads keys.

Doors: leaderboards, plain, published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slicewise.codec.envelopes import (
        DAY_HEAD,
        DIGEST_BYTES,
        LIFETIME_HEAD,
        RUNNING_HEAD,
        SEAL_BYTES,
        TOTAL_HEAD,
        Day,
        Lifetime,
        Raw,
        Running,
        Slices,
        Total,
        check_values,
        day_digest,
        five_day_digest,
        open_running,
        open_slices,
        pack_day,
        pack_lifetime,
        pack_running,
        pack_slice_runs,
        pack_slices,
        pack_total,
        unpack_day,
        unpack_lifetime,
        unpack_running,
        unpack_slices,
        unpack_total,
        versions_of,
    )
    from slicewise.codec.hours import Hours, pack_hours, unpack_hours
    from slicewise.codec.ids import IDS_HEAD, NOTHING, Remembered, pack_ids, unpack_ids
    from slicewise.codec.layout import CODEC_VERSION, Layout
    from slicewise.codec.members import (
        IDENTITY_BYTES,
        MEMBERS_VERSION,
        TOPIC_PARTITION,
        Members,
        OpenMembers,
        identity_time,
        score_of,
    )
    from slicewise.codec.pending import (
        PENDING_HEAD,
        PENDING_SIZE,
        ROOM,
        Room,
        offset_of,
        pack_pending,
        pack_pending_numbers,
        unpack_pending,
        unpack_pending_numbers,
    )
    from slicewise.codec.scalar import Row, ScalarRows
    from slicewise.codec.skips import pack_skip, unpack_skip

__all__ = [
    "CODEC_VERSION",
    "DAY_HEAD",
    "DIGEST_BYTES",
    "IDENTITY_BYTES",
    "IDS_HEAD",
    "LIFETIME_HEAD",
    "MEMBERS_VERSION",
    "NOTHING",
    "PENDING_HEAD",
    "PENDING_SIZE",
    "ROOM",
    "RUNNING_HEAD",
    "SEAL_BYTES",
    "TOPIC_PARTITION",
    "TOTAL_HEAD",
    "Day",
    "Hours",
    "Layout",
    "Lifetime",
    "Members",
    "OpenMembers",
    "Raw",
    "Remembered",
    "Room",
    "Row",
    "Running",
    "ScalarRows",
    "Slices",
    "Total",
    "check_values",
    "day_digest",
    "five_day_digest",
    "identity_time",
    "offset_of",
    "open_running",
    "open_slices",
    "pack_day",
    "pack_hours",
    "pack_ids",
    "pack_lifetime",
    "pack_pending",
    "pack_pending_numbers",
    "pack_running",
    "pack_skip",
    "pack_slice_runs",
    "pack_slices",
    "pack_total",
    "score_of",
    "unpack_day",
    "unpack_hours",
    "unpack_ids",
    "unpack_lifetime",
    "unpack_pending",
    "unpack_pending_numbers",
    "unpack_running",
    "unpack_skip",
    "unpack_slices",
    "unpack_total",
    "versions_of",
]

if not TYPE_CHECKING:  # a type checker shall know the names above and no others

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in __all__:
            for module in (
                "envelopes",
                "hours",
                "ids",
                "layout",
                "members",
                "pending",
                "scalar",
                "skips",
            ):
                names = vars(import_module(f"{__name__}.{module}"))
                if name in names:
                    globals()[name] = names[name]
                    return names[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
