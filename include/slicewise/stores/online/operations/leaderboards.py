"""The newest truth stands on a leaderboard, whoever writes last; one that nobody makes anew goes by
itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import ByTag, NodeContext, Owner, Split
from slicewise.stores.online.sharded.routing import by_node
from slicewise.stores.online.steps import TIME, WHOLE_METADATA, Fields, PutLeaderboard, Steps

FIELDS = (b"b", b"t")
"""Fields of a leaderboard: its bytes, and the store's time at which they were written; beside them
`o`, its order."""
PERIODS = 2
"""A leaderboard expires so many of its periods after it was written."""


def order(deployment_version: int, leaderboard: StoredLeaderboard) -> bytes:
    """Newer leaderboards have greater orders, byte by byte: deployment version, window end, offset
    vector."""
    return b"%010d:%020d:%020d" % (deployment_version, leaderboard.end_us, leaderboard.version)


@dataclass(frozen=True)
class LeaderboardReply:
    """A leaderboard as it stands, with time and metadata of the same connection, read before it."""

    time_us: int
    metadata: StoreMetadata
    leaderboard: bytes | None
    """None: none was made yet, or nobody made it anew for two of its periods."""
    written_us: int | None
    """By the store's clock."""


@dataclass(frozen=True)
class PublishLeaderboard(Owner[bool]):
    """Writes a leaderboard's rows, to expire after two periods and extra_us. False where a
    leaderboard of a newer deployment, a later window end or the same end and no smaller offset
    vector stands."""

    name: str
    deployment_version: int
    every_us: int
    leaderboard: StoredLeaderboard
    extra_us: int = 0
    """Time that it stands beyond others."""

    def steps(self, at: NodeContext) -> Steps[bool]:
        key, kept_us = (
            keys.leaderboard_key(at.store_id, self.name),
            PERIODS * self.every_us + self.extra_us,
        )
        newest = order(self.deployment_version, self.leaderboard)
        (reply,) = yield [
            PutLeaderboard(key, newest, self.leaderboard.pack(), -(-kept_us // 1_000))
        ]
        return bool(reply)


@dataclass(frozen=True)
class ReadLeaderboard(Owner[LeaderboardReply]):
    """Time, metadata and leaderboard, in one round trip."""

    name: str

    def steps(self, at: NodeContext) -> Steps[LeaderboardReply]:
        wanted = Fields(keys.leaderboard_key(at.store_id, self.name), FIELDS)
        now_us, flat, (raw, written) = yield [TIME, WHOLE_METADATA, wanted]
        record = metadata.bound(metadata.parse(flat), at.store_id)
        return LeaderboardReply(now_us, record, raw, None if written is None else int(written))


@dataclass(frozen=True)
class RememberLeaderboards(ByTag[None]):
    """Keeps leaderboards of past window ends: corrections of them start from there."""

    deployment_version: int
    past: Sequence[tuple[str, int, StoredLeaderboard]]
    """(name, for how many microseconds, leaderboard)."""

    def steps(self, at: NodeContext) -> Steps[None]:
        yield [
            PutLeaderboard(
                keys.leaderboard_key(at.store_id, name, leaderboard.end_us),
                order(self.deployment_version, leaderboard),
                leaderboard.pack(),
                -(-kept_us // 1_000),
            )
            for name, kept_us, leaderboard in self.past
        ]

    def split(self, count: int) -> Split[None]:
        positions = by_node([name.encode() for name, _, _ in self.past], count)
        version = self.deployment_version
        return Split(
            {
                n: RememberLeaderboards(version, [self.past[i] for i in own])
                for n, own in positions.items()
            }
        )

    def join(self, replies: Mapping[int, None], split: Split[None]) -> None: ...


@dataclass(frozen=True)
class ReadRememberedLeaderboard(Owner[StoredLeaderboard | None]):
    """Reads what is remembered of the leaderboard of this window end."""

    name: str
    end_us: int

    def steps(self, at: NodeContext) -> Steps[StoredLeaderboard | None]:
        ((raw,),) = yield [
            Fields(keys.leaderboard_key(at.store_id, self.name, self.end_us), FIELDS[:1])
        ]
        return None if raw is None else StoredLeaderboard.unpack(raw)
