"""Tokens that are read as columns are those that are decoded one by one, and so is what is
refused."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from slicewise.errors import BadRequest
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.training.tables.tokens import AlikeTokens, BadToken, NoToken, TokenColumns

TOPICS = ("ab" * 16, "cd" * 16)
WIDTHS = (0, 1, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1, 2**32, 2**53)
"""Numbers on either side of where msgpack takes more bytes."""
BEFORE_1970 = (-1, -32, -33, -128, -129, -32_768, -32_769, -(2**31), -(2**31) - 1, -(2**53))
UNITS = ("0" * 16, "1" * 16)


def edges(random: Random) -> int:
    return random.choice(WIDTHS)


def wide(random: Random) -> int:
    """Numbers that take as many bytes as each other."""
    return random.randrange(2**33, 2**34)


def text_of(random: Random, number: Callable[[Random], int], partitions: int) -> str:
    """The tokens of a row, of one unit or of two."""
    texts = []
    for unit in UNITS[: random.choice((1, 1, 2))]:
        partitions_named = [(topic, p) for topic in TOPICS for p in range(partitions)]
        starts = sorted(number(random) for _ in range(2))
        if number is edges:
            starts = [random.choice((start, *BEFORE_1970)) for start in starts]
        bounds = {f"n_{i}h": (start, start + number(random)) for i, start in enumerate(starts)}
        beyond = {}
        if random.random() < 0.1 and partitions_named:
            beyond = {random.randrange(9): OffsetVector({partitions_named[0]: 1 + number(random)})}
        base = OffsetVector({named: number(random) for named in partitions_named})
        texts.append(tokens.encode(unit, random.choice(UNITS), base, beyond, "live", bounds))
    return tokens.join(texts)


def texts_again(columns: TokenColumns) -> dict[int, tuple[int, str]]:
    """Position -> (row, text) of every token, encoded once more."""
    return {
        int(alike.order[at]): (int(alike.row[at]), _encoded(alike, at))
        for alike in columns.alike
        for at in range(len(alike.row))
    }


def _encoded(alike: AlikeTokens, at: int) -> str:
    beyond: dict[int, dict[tuple[str, int], int]] = {}
    for own, hour, topic_partition, offset in alike.beyond:
        if own == at:
            beyond.setdefault(hour, {})[topic_partition] = offset
    base = dict(zip(alike.topic_partitions, alike.base[at].tolist(), strict=True))
    return tokens.encode(
        alike.unit,
        alike.definition,
        OffsetVector(base),
        {hour: OffsetVector(offsets) for hour, offsets in beyond.items()},
        "live",
        {name: (int(start[at]), int(end[at])) for name, (start, end) in alike.bounds.items()},
    )


@pytest.mark.parametrize("number", [edges, wide])
def test_columns_hold_what_each_token_says(number: Callable[[Random], int]) -> None:
    for seed in range(60):
        random = Random(seed)
        rows = [text_of(random, number, seed % 3) for _ in range(random.randint(1, 25))]
        column = pa.chunked_array([pa.array(rows[:3]), pa.array(rows[3:], pa.string())])
        parts = [(row, text) for row, whole in enumerate(rows) for text in whole.split(".")]
        again = texts_again(TokenColumns.of(column))
        assert [again[i] for i in sorted(again)] == parts, seed


@pytest.mark.parametrize("number", [edges, wide])
def test_a_token_that_was_changed_is_refused_wherever_it_was_changed(
    number: Callable[[Random], int],
) -> None:
    refused = 0
    for seed in range(150):
        random = Random(seed)
        rows = [text_of(random, number, 2) for _ in range(random.randint(1, 12))]
        changed = random.randrange(len(rows))
        at = random.randrange(len(rows[changed]))
        other = random.choice("ABab01-_=.é ")
        rows[changed] = rows[changed][:at] + other + rows[changed][at + 1 :]
        try:
            tokens.decode_all(rows[changed])
        except BadRequest:
            refused += 1
            with pytest.raises(BadToken) as bad:
                TokenColumns.of(pa.chunked_array([pa.array(rows)]))
            assert bad.value.args == (changed,), seed
        else:
            TokenColumns.of(pa.chunked_array([pa.array(rows)]))
    assert refused > 100


def test_of_several_tokens_of_a_unit_that_of_the_definition_counts() -> None:
    def one(definition: str, offset: int) -> str:
        base = OffsetVector({(TOPICS[0], 0): offset})
        return tokens.encode(UNITS[0], definition, base, {}, "live", {"n_1h": (0, 1)})

    first, second = one(UNITS[0], 200), one(UNITS[1], 300)
    columns = TokenColumns.of(pa.chunked_array([[tokens.join([first, second]), first]]))
    chosen = columns.of_unit(UNITS[0], UNITS[1])
    assert {
        int(row): int(alike.base[at, 0]) for alike in chosen for at, row in enumerate(alike.row)
    } == {
        0: 300,
        1: 200,
    }
    with pytest.raises(NoToken) as lacking:
        columns.of_unit(UNITS[1], UNITS[1])
    assert lacking.value.args == (0,)
