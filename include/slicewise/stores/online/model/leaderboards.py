"""The newest truth stands on a board, whoever writes last; a board that nobody makes anew goes by itself."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.stores.online import keys
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.port import LeaderboardReply
from slicewise.stores.online.steps import TIME, WHOLE_MARKS, Fields, PutLeaderboard, Steps

FIELDS = (b"b", b"t")
"""Of a board: its bytes, and the store's time at which they were written; beside them `o`, its order."""
PERIODS = 2
"""A board expires so many of its periods after it was written."""


def order(epoch: int, board: StoredLeaderboard) -> bytes:
    """Newer boards have greater orders, byte by byte: epoch of the deployment, window end, cover."""
    return b"%010d:%020d:%020d" % (epoch, board.end_us, board.version)


def put_board(
    generation: int, name: str, epoch: int, every_us: int, board: StoredLeaderboard, held_us: int = 0
) -> Steps[bool]:
    """Whether it was written: not where one as new stands. held_us: how much longer than others it stands."""
    key, lives_us = keys.board_key(generation, name), PERIODS * every_us + held_us
    (reply,) = yield [PutLeaderboard(key, order(epoch, board), board.pack(), -(-lives_us // 1_000))]
    return bool(reply)


def remember_boards(generation: int, epoch: int, past: Sequence[tuple[str, int, StoredLeaderboard]]) -> Steps[None]:
    """What corrections of past boards start from; (name, how long it is kept in microseconds, board)."""
    yield [
        PutLeaderboard(
            keys.board_key(generation, name, board.end_us), order(epoch, board), board.pack(), -(-lives // 1_000)
        )
        for name, lives, board in past
    ]


def remembered_board(generation: int, name: str, end_us: int) -> Steps[StoredLeaderboard | None]:
    """What is remembered of the board of this window end."""
    ((raw,),) = yield [Fields(keys.board_key(generation, name, end_us), FIELDS[:1])]
    return None if raw is None else StoredLeaderboard.unpack(raw)


def board(generation: int, name: str) -> Steps[LeaderboardReply]:
    """Time, marks and board, in one round trip."""
    now_us, flat, (raw, written) = yield [TIME, WHOLE_MARKS, Fields(keys.board_key(generation, name), FIELDS)]
    standing = marks.bound(marks.parse(flat), generation)
    return LeaderboardReply(now_us, standing, raw, None if written is None else int(written))
