"""The newest truth stands on a board, whoever writes last; one that nobody makes anew goes by itself."""

from __future__ import annotations

import time
from dataclasses import replace

from slicewise.codec.leaderboards import LeaderboardRow, StoredLeaderboard
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.leaderboards import (
    PublishLeaderboard,
    ReadLeaderboard,
    ReadRememberedLeaderboard,
    RememberLeaderboards,
)
from tests.contract.conftest import Bench
from tests.support.stores.stored import cover

SECOND_US = 1_000_000
BOARD = StoredLeaderboard(
    "00000000000000aa", 0, 10 * SECOND_US, cover(5), (("song_id", "string"),), (LeaderboardRow(("zoë",), 3),)
)  # fmt: skip


def test_a_board_is_read_as_it_was_written_with_time_and_marks(bench: Bench) -> None:
    before = bench.store.run(ReadLeaderboard("top_songs"))
    assert (before.board, before.written_us) == (None, None)
    assert bench.store.run(PublishLeaderboard("top_songs", 1, SECOND_US, BOARD))
    found = bench.connect().run(ReadLeaderboard("top_songs"))
    assert found.board is not None
    assert StoredLeaderboard.unpack(found.board) == BOARD
    assert found.written_us is not None
    assert before.time_us <= found.written_us <= found.time_us
    assert replace(found.marks, node="") == bench.store.run(ReadMetadata())


def test_an_older_board_never_replaces_a_newer_one(bench: Bench) -> None:
    later = replace(BOARD, end_us=BOARD.end_us + SECOND_US)
    more = replace(BOARD, cover=cover(6))
    store, minute = bench.store, 60 * SECOND_US
    # (epoch, board) in the order in which they count; every one of them is tried again after each
    order = [(1, BOARD), (1, more), (1, later), (2, BOARD)]
    for i, (epoch, newer) in enumerate(order):
        assert store.run(PublishLeaderboard("top_songs", epoch, minute, newer))
        assert not any(store.run(PublishLeaderboard("top_songs", e, minute, older)) for e, older in order[: i + 1])
        assert store.run(ReadLeaderboard("top_songs")).board == newer.pack()


def test_a_board_expires_after_two_periods(bench: Bench) -> None:
    period_us = 500_000
    bench.store.run(PublishLeaderboard("top_songs", 1, period_us, BOARD))
    written = bench.store.run(ReadLeaderboard("top_songs")).written_us
    assert written is not None
    deadline = time.monotonic() + 60
    while (found := bench.store.run(ReadLeaderboard("top_songs"))).board is not None:
        assert found.time_us <= written + 2 * period_us + 1_000
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert bench.store.run(ReadTime()) >= written + 2 * period_us
    assert bench.store.run(PublishLeaderboard("top_songs", 1, period_us, BOARD))  # what went stands in nobody's way


def test_a_board_that_is_held_stays_longer(bench: Bench) -> None:
    bench.store.run(PublishLeaderboard("top_songs", 1, 100_000, BOARD, held_us=60_000_000))
    written = bench.store.run(ReadLeaderboard("top_songs")).written_us
    assert written is not None
    deadline = time.monotonic() + 60
    while bench.store.run(ReadTime()) < written + 4 * 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert bench.store.run(ReadLeaderboard("top_songs")).board == BOARD.pack()


def test_boards_of_two_names_and_of_past_ends_are_apart(bench: Bench) -> None:
    store = bench.store
    store.run(RememberLeaderboards(1, [("top_songs", SECOND_US * 600, BOARD), ("top_songs", SECOND_US * 600, BOARD)]))
    assert store.run(ReadRememberedLeaderboard("top_songs", BOARD.end_us)) == BOARD
    assert store.run(ReadRememberedLeaderboard("top_songs", BOARD.end_us + 1)) is None
    assert store.run(ReadRememberedLeaderboard("others", BOARD.end_us)) is None
    assert store.run(ReadLeaderboard("top_songs")).board is None
    more = replace(BOARD, cover=cover(9))
    store.run(RememberLeaderboards(1, [("top_songs", SECOND_US * 600, more)]))
    store.run(RememberLeaderboards(1, [("top_songs", SECOND_US * 600, BOARD)]))
    assert store.run(ReadRememberedLeaderboard("top_songs", BOARD.end_us)) == more


def test_a_board_stands_under_its_generation(bench: Bench) -> None:
    generation = bench.store.generation
    assert keys.board_key(generation, "top_songs") == b"sw:%d:board:top_songs" % generation
    assert keys.board_key(generation, "top_songs", 7) == b"sw:%d:board:top_songs:7" % generation


def test_the_version_of_a_board_grows_with_its_cover() -> None:
    assert replace(BOARD, cover=OffsetVector()).version < BOARD.version < replace(BOARD, cover=cover(6)).version
