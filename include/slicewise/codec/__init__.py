"""Bytes to columns and back: the rows of a unit, and the values that the online store keeps.

A name is looked up when it is first asked for: Airflow's environment has neither numpy nor msgpack, and reads keys.

Doors: Layout, envelopes, members.
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
        open_running,
        open_slices,
        pack_day,
        pack_lifetime,
        pack_running,
        pack_slices,
        pack_total,
        pentad_digest,
        seqs_of,
        unpack_day,
        unpack_lifetime,
        unpack_running,
        unpack_slices,
        unpack_total,
    )
    from slicewise.codec.hours import Hours, pack_hours, unpack_hours
    from slicewise.codec.ids import IDS_HEAD, NOTHING, Remembered, pack_ids, unpack_ids
    from slicewise.codec.layout import CODEC_VERSION, Layout
    from slicewise.codec.members import (
        IDENTITY_BYTES,
        MEMBERS_VERSION,
        PLACE_OF,
        Members,
        OpenMembers,
        identity_time,
        score_of,
    )
    from slicewise.codec.pending import (
        ROOM,
        TAIL_HEAD,
        TAIL_SIZE,
        Room,
        offset_of,
        pack_tail,
        pack_tail_head,
        unpack_tail,
        unpack_tail_head,
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
    "PLACE_OF",
    "ROOM",
    "RUNNING_HEAD",
    "SEAL_BYTES",
    "TAIL_HEAD",
    "TAIL_SIZE",
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
    "identity_time",
    "offset_of",
    "open_running",
    "open_slices",
    "pack_day",
    "pack_hours",
    "pack_ids",
    "pack_lifetime",
    "pack_running",
    "pack_skip",
    "pack_slices",
    "pack_tail",
    "pack_tail_head",
    "pack_total",
    "pentad_digest",
    "score_of",
    "seqs_of",
    "unpack_day",
    "unpack_hours",
    "unpack_ids",
    "unpack_lifetime",
    "unpack_running",
    "unpack_skip",
    "unpack_slices",
    "unpack_tail",
    "unpack_tail_head",
    "unpack_total",
]

if not TYPE_CHECKING:  # a type checker shall know the names above and no others

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in __all__:
            for module in ("envelopes", "hours", "ids", "layout", "members", "pending", "scalar", "skips"):
                found = vars(import_module(f"{__name__}.{module}"))
                if name in found:
                    globals()[name] = found[name]
                    return found[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
