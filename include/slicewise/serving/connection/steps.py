"""Requests of a service to the store, as data: one flow for blocking and asynchronous callers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.operations.archive_versions import ReadArchiveVersions
from slicewise.stores.online.operations.reading import EntityRead, Read, ReadReply, TagRead
from slicewise.stores.online.port import Routed

T = TypeVar("T")


@dataclass(frozen=True)
class StoreId:
    """-> the store id that the open connection's keys name; a connection is opened if none is."""


@dataclass(frozen=True)
class Reopen:
    """-> None; the connection is closed, the next ask opens another (of another server run)."""


Request = Routed[Any] | StoreId | Reopen
"""An operation of the store -> its result; or something of the connection itself."""
Flow = Generator[Request, Any, T]


def read(reads: Sequence[EntityRead | TagRead]) -> Flow[ReadReply]:
    reply: ReadReply = yield Read(reads)
    return reply


def offset_vectors(source: str) -> Flow[Mapping[int, OffsetVector]]:
    read_archive_versions: Mapping[int, OffsetVector] = yield ReadArchiveVersions(source)
    return read_archive_versions
