"""What a service asks of the store, as data: one flow for blocking and asynchronous callers."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.port import EntityRead, ReadReply, TagRead

T = TypeVar("T")


@dataclass(frozen=True)
class Read:
    """-> ReadReply, in one round trip."""

    reads: Sequence[EntityRead | TagRead]


@dataclass(frozen=True)
class Generation:
    """-> the generation that the open connection's keys name; a connection is opened if none is."""


@dataclass(frozen=True)
class Manifest:
    """-> JSON of the deployment of this digest, or None."""

    digest: str


@dataclass(frozen=True)
class Covers:
    """-> archive seq -> cover, of a source."""

    source: str


@dataclass(frozen=True)
class Status:
    """-> what a running part says about itself, or None."""

    part: str


@dataclass(frozen=True)
class ReadLeaderboard:
    """-> BoardReply, in one round trip."""

    name: str


@dataclass(frozen=True)
class Reopen:
    """-> None; the connection is closed, the next ask opens another (of another incarnation)."""


Ask = Read | Generation | Manifest | Covers | Status | ReadLeaderboard | Reopen
Flow = Generator[Ask, Any, T]


def read(reads: Sequence[EntityRead | TagRead]) -> Flow[ReadReply]:
    reply: ReadReply = yield Read(reads)
    return reply


def covers(source: str) -> Flow[Mapping[int, OffsetVector]]:
    found: Mapping[int, OffsetVector] = yield Covers(source)
    return found
