"""Bytes to columns and back: the rows of a unit, and the values that the online store keeps."""

from __future__ import annotations

from slicewise.codec.envelopes import (
    Day,
    Raw,
    Running,
    Slices,
    Total,
    day_digest,
    open_running,
    open_runnings,
    open_slices,
    open_total,
    open_totals,
    pack_day,
    pack_running,
    pack_slices,
    pack_total,
    unpack_day,
    unpack_running,
    unpack_slices,
    unpack_total,
)
from slicewise.codec.hours import Hours, pack_hours, unpack_hours
from slicewise.codec.layout import CODEC_VERSION, Layout

__all__ = [
    "CODEC_VERSION",
    "Day",
    "Hours",
    "Layout",
    "Raw",
    "Running",
    "Slices",
    "Total",
    "day_digest",
    "open_running",
    "open_runnings",
    "open_slices",
    "open_total",
    "open_totals",
    "pack_day",
    "pack_hours",
    "pack_running",
    "pack_slices",
    "pack_total",
    "unpack_day",
    "unpack_hours",
    "unpack_running",
    "unpack_slices",
    "unpack_total",
]
