"""The newest truth stands on a leaderboard, whoever writes last; one that nobody makes anew goes by
itself."""

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
from tests.support.stores.stored import offset_vector

SECOND_US = 1_000_000
LEADERBOARD = StoredLeaderboard(
    "00000000000000aa", 0, 10 * SECOND_US, offset_vector(5), (("song_id", "string"),), (LeaderboardRow(("zoë",), 3),)
)  # fmt: skip


def test_a_leaderboard_is_read_as_it_was_written_with_time_and_metadata(bench: Bench) -> None:
    before = bench.store.run(ReadLeaderboard("top_songs"))
    assert (before.leaderboard, before.written_us) == (None, None)
    assert bench.store.run(PublishLeaderboard("top_songs", 1, SECOND_US, LEADERBOARD))
    result = bench.connect().run(ReadLeaderboard("top_songs"))
    assert result.leaderboard is not None
    assert StoredLeaderboard.unpack(result.leaderboard) == LEADERBOARD
    assert result.written_us is not None
    assert before.time_us <= result.written_us <= result.time_us
    assert replace(result.metadata, node="") == bench.store.run(ReadMetadata())


def test_an_older_leaderboard_never_replaces_a_newer_one(bench: Bench) -> None:
    later = replace(LEADERBOARD, end_us=LEADERBOARD.end_us + SECOND_US)
    more = replace(LEADERBOARD, offset_vector=offset_vector(6))
    store, minute = bench.store, 60 * SECOND_US
    # (deployment version, leaderboard) in the order in which they count; every one of them is tried
    # again after each
    order = [(1, LEADERBOARD), (1, more), (1, later), (2, LEADERBOARD)]
    for i, (deployment_version, newer) in enumerate(order):
        assert store.run(PublishLeaderboard("top_songs", deployment_version, minute, newer))
        assert not any(
            store.run(PublishLeaderboard("top_songs", e, minute, older))
            for e, older in order[: i + 1]
        )
        assert store.run(ReadLeaderboard("top_songs")).leaderboard == newer.pack()


def test_a_leaderboard_expires_after_two_periods(bench: Bench) -> None:
    period_us = 100_000
    bench.store.run(PublishLeaderboard("top_songs", 1, period_us, LEADERBOARD))
    written = bench.store.run(ReadLeaderboard("top_songs")).written_us
    assert written is not None
    deadline = time.monotonic() + 60
    while (result := bench.store.run(ReadLeaderboard("top_songs"))).leaderboard is not None:
        assert result.time_us <= written + 2 * period_us + 1_000
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert bench.store.run(ReadTime()) >= written + 2 * period_us
    # what went stands in nobody's way
    assert bench.store.run(PublishLeaderboard("top_songs", 1, period_us, LEADERBOARD))


def test_a_leaderboard_that_is_held_stays_longer(bench: Bench) -> None:
    bench.store.run(PublishLeaderboard("top_songs", 1, 100_000, LEADERBOARD, extra_us=60_000_000))
    written = bench.store.run(ReadLeaderboard("top_songs")).written_us
    assert written is not None
    deadline = time.monotonic() + 60
    while bench.store.run(ReadTime()) < written + 4 * 100_000:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert bench.store.run(ReadLeaderboard("top_songs")).leaderboard == LEADERBOARD.pack()


def test_leaderboards_of_two_names_and_of_past_ends_are_apart(bench: Bench) -> None:
    store = bench.store
    store.run(
        RememberLeaderboards(
            1,
            [
                ("top_songs", SECOND_US * 600, LEADERBOARD),
                ("top_songs", SECOND_US * 600, LEADERBOARD),
            ],
        )
    )
    assert store.run(ReadRememberedLeaderboard("top_songs", LEADERBOARD.end_us)) == LEADERBOARD
    assert store.run(ReadRememberedLeaderboard("top_songs", LEADERBOARD.end_us + 1)) is None
    assert store.run(ReadRememberedLeaderboard("others", LEADERBOARD.end_us)) is None
    assert store.run(ReadLeaderboard("top_songs")).leaderboard is None
    more = replace(LEADERBOARD, offset_vector=offset_vector(9))
    store.run(RememberLeaderboards(1, [("top_songs", SECOND_US * 600, more)]))
    store.run(RememberLeaderboards(1, [("top_songs", SECOND_US * 600, LEADERBOARD)]))
    assert store.run(ReadRememberedLeaderboard("top_songs", LEADERBOARD.end_us)) == more


def test_a_leaderboard_stands_under_its_store_id(bench: Bench) -> None:
    store_id = bench.store.store_id
    assert keys.leaderboard_key(store_id, "top_songs") == b"sw:%d:board:top_songs" % store_id
    assert keys.leaderboard_key(store_id, "top_songs", 7) == b"sw:%d:board:top_songs:7" % store_id


def test_the_version_of_a_leaderboard_grows_with_its_offset_vector() -> None:
    assert (
        replace(LEADERBOARD, offset_vector=OffsetVector()).version
        < LEADERBOARD.version
        < replace(LEADERBOARD, offset_vector=offset_vector(6)).version
    )
