"""The newest truth stands on a leaderboard, whoever writes last; one that nobody makes anew goes by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.operation import ByTag, NodeContext, Owner, Split
from slicewise.stores.online.routing import by_node
from slicewise.stores.online.steps import TIME, WHOLE_MARKS, Fields, PutLeaderboard, Steps

FIELDS = (b"b", b"t")
"""Of a board: its bytes, and the store's time at which they were written; beside them `o`, its order."""
PERIODS = 2
"""A board expires so many of its periods after it was written."""


def order(epoch: int, board: StoredLeaderboard) -> bytes:
    """Newer boards have greater orders, byte by byte: epoch of the deployment, window end, cover."""
    return b"%010d:%020d:%020d" % (epoch, board.end_us, board.version)


@dataclass(frozen=True)
class LeaderboardReply:
    """A leaderboard as it stands, with time and marks of the same connection, read before it."""

    time_us: int
    marks: StoreMetadata
    board: bytes | None
    """None: none was made yet, or nobody made it anew for two of its periods."""
    written_us: int | None
    """By the store's clock."""


@dataclass(frozen=True)
class PublishLeaderboard(Owner[bool]):
    """Writes a leaderboard's rows, to expire after two periods and held_us. False where a leaderboard of a newer
    deployment, a later window end or the same end and no smaller cover stands."""

    name: str
    deployment_version: int
    every_us: int
    board: StoredLeaderboard
    held_us: int = 0
    """How much longer than others it stands."""

    def steps(self, at: NodeContext) -> Steps[bool]:
        key, lives_us = keys.board_key(at.store_id, self.name), PERIODS * self.every_us + self.held_us
        newest = order(self.deployment_version, self.board)
        (reply,) = yield [PutLeaderboard(key, newest, self.board.pack(), -(-lives_us // 1_000))]
        return bool(reply)


@dataclass(frozen=True)
class ReadLeaderboard(Owner[LeaderboardReply]):
    """Time, metadata and leaderboard, in one round trip."""

    name: str

    def steps(self, at: NodeContext) -> Steps[LeaderboardReply]:
        wanted = Fields(keys.board_key(at.store_id, self.name), FIELDS)
        now_us, flat, (raw, written) = yield [TIME, WHOLE_MARKS, wanted]
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
                keys.board_key(at.store_id, name, board.end_us),
                order(self.deployment_version, board),
                board.pack(),
                -(-lives_us // 1_000),
            )
            for name, lives_us, board in self.past
        ]

    def split(self, count: int) -> Split[None]:
        positions = by_node([name.encode() for name, _, _ in self.past], count)
        version = self.deployment_version
        return Split({n: RememberLeaderboards(version, [self.past[i] for i in own]) for n, own in positions.items()})

    def join(self, replies: Mapping[int, None], split: Split[None]) -> None: ...


@dataclass(frozen=True)
class ReadRememberedLeaderboard(Owner[StoredLeaderboard | None]):
    """Reads what is remembered of the leaderboard of this window end."""

    name: str
    end_us: int

    def steps(self, at: NodeContext) -> Steps[StoredLeaderboard | None]:
        ((raw,),) = yield [Fields(keys.board_key(at.store_id, self.name, self.end_us), FIELDS[:1])]
        return None if raw is None else StoredLeaderboard.unpack(raw)
