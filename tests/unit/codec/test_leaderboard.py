"""Leaderboards are what docs/format.md says, to the byte, and are refused for anything else."""

from __future__ import annotations

import random
import zlib

import pytest

from slicewise.codec.leaderboards import LeaderboardRow, StoredLeaderboard
from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector

TOPIC = "0123456789abcdef" * 2
GOLDEN = StoredLeaderboard(
    fingerprint="f4b1e92ca39aad22",
    start_us=1_357_000_000_000_000,
    end_us=1_357_000_010_000_000,
    offset_vector=OffsetVector({(TOPIC, 0): 300, (TOPIC, 1): 7}),
    columns=(("day", "date"), ("song_id", "string")),
    rows=(
        LeaderboardRow(("2013-01-01", "zoë"), 12),
        LeaderboardRow(("2013-01-01", ""), -1.5),
        LeaderboardRow(("2013-01-02", "a"), "1.50"),
    ),
    more=True,
)  # fmt: skip
HEX = (
    "9801c408f4b1e92ca39aad22cf0004d22f2ef5d000cf0004d22f2f8e6680"
    "81d920" + TOPIC.encode().hex() + "8200cd012c0107"
    "9292a3646179a46461746592a7736f6e675f6964a6737472696e67"
    "939292aa323031332d30312d3031a47a6fc3ab0c"
    "9292aa323031332d30312d3031a0cbbff8000000000000"
    "9292aa323031332d30312d3032a161a4312e3530c3"
)  # fmt: skip


def test_a_leaderboard_is_the_golden_one() -> None:
    body = bytes.fromhex(HEX)
    golden = body + zlib.crc32(body).to_bytes(4, "little")
    assert GOLDEN.pack().hex() == golden.hex()
    assert StoredLeaderboard.unpack(golden) == GOLDEN
    assert golden[-4:].hex() == "d5c123ec"


def test_mutated_bytes_are_refused() -> None:
    raw = GOLDEN.pack()
    draw = random.Random(11)
    for _ in range(2_000):
        mutated = bytearray(raw)
        for _ in range(draw.randint(1, 4)):
            mutated[draw.randrange(len(raw))] ^= draw.randint(1, 255)
        body = bytes(mutated[:-4])
        # as they are, and with a checksum that holds
        for changed in (bytes(mutated), body + zlib.crc32(body).to_bytes(4, "little")):
            try:
                result = StoredLeaderboard.unpack(changed)
            except CodecError:
                continue
            # another leaderboard in its one form, or the mutation undid itself
            assert result.pack() == changed


@pytest.mark.parametrize("raw", [b"", b"\x97", bytes(4), b"\xc0" * 40, GOLDEN.pack() + b"\0"])
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(CodecError):
        StoredLeaderboard.unpack(raw)


def test_a_row_without_all_columns_is_refused() -> None:
    short = StoredLeaderboard(
        GOLDEN.fingerprint,
        0,
        1,
        OffsetVector(),
        GOLDEN.columns,
        (LeaderboardRow(("2013-01-01",), 1),),
    )
    with pytest.raises(CodecError):
        StoredLeaderboard.unpack(short.pack())
