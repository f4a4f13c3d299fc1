"""Song plays with Zipf-distributed users and songs: equal seeds make equal plays, from any number
on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicewise.errors import DefinitionError

Int64 = npt.NDArray[np.int64]
CHUNK = 8_192
SCHEMA = pa.schema(
    [
        ("user_id", pa.string()),
        ("song_id", pa.string()),
        ("seconds", pa.float64()),
        ("skipped", pa.bool_()),
        ("played_at", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Plays:
    """An endless sequence of plays. rate: plays per second of event time; start_us: of play 0.

    late_share of the plays happened up to late_us before their turn, so that event times are out
    of order. Ranks are drawn with probability proportional to 1 / rank^exponent.
    """

    seed: int = 7
    users: int = 100_000
    songs: int = 100_000
    rate: float = 2_000.0
    start_us: int = 0
    exponent: float = 1.05
    late_share: float = 0.05
    late_us: int = 60_000_000

    def __post_init__(self) -> None:
        if self.users < 1 or self.songs < 1 or self.rate <= 0 or not 0 <= self.late_share <= 1:
            raise DefinitionError(
                f"{self.users} users, {self.songs} songs, rate {self.rate}",
                expected="at least one user and one song, a rate above 0",
                next_step="correct the options of slicewise load",
            )

    @cached_property
    def _user_weights(self) -> npt.NDArray[np.float64]:
        return _cumulative(self.users, self.exponent)

    @cached_property
    def _song_weights(self) -> npt.NDArray[np.float64]:
        return _cumulative(self.songs, self.exponent)

    def batch(self, first: int, n: int) -> pa.RecordBatch:
        """Plays first … first+n-1, with SCHEMA; played_at in microseconds."""
        chunks = [
            _chunk(self, c) for c in range(first // CHUNK, (first + n - 1) // CHUNK + 1) if n > 0
        ]
        if not chunks:
            return pa.RecordBatch.from_pylist([], schema=SCHEMA)
        table = pa.Table.from_batches(chunks).slice(first % CHUNK, n).combine_chunks()
        return table.to_batches(max_chunksize=n)[0]

    def json(self, first: int, n: int) -> list[bytes]:
        """The same plays as JSON objects."""
        return [value for _, value in self.keyed(first, n)]

    def keyed(self, first: int, n: int) -> list[tuple[bytes, bytes]]:
        """The same plays as (user, JSON object)."""
        columns = self.batch(first, n).to_pydict()
        return [
            (
                user.encode(),
                f'{{"user_id":"{user}","song_id":"{song}","seconds":{seconds!r},'
                f'"skipped":{"true" if skipped else "false"},"played_at":{at}}}'.encode(),
            )
            for user, song, seconds, skipped, at in zip(*columns.values(), strict=True)
        ]

    def drawn(self, chunk: int) -> pa.RecordBatch:
        """CHUNK plays from chunk * CHUNK on."""
        # A generator per chunk, so that any number is reached without making those before it.
        random = np.random.Generator(np.random.PCG64([self.seed, chunk]))
        users = np.searchsorted(self._user_weights, random.random(CHUNK), side="right")
        songs = np.searchsorted(self._song_weights, random.random(CHUNK), side="right")
        seconds = np.round(random.random(CHUNK) * 420.0, 3)
        late = random.random(CHUNK) < self.late_share
        delay = np.where(late, random.random(CHUNK) * self.late_us, 0.0).astype(np.int64)
        numbers = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=np.int64)
        turn = self.start_us + (numbers * 1_000_000 // self.rate).astype(np.int64)
        return pa.record_batch(
            [
                pa.array([f"u{user}" for user in users.tolist()]),
                pa.array([f"s{song}" for song in songs.tolist()]),
                pa.array(seconds),
                pa.array(seconds < 30.0),
                pa.array(turn - delay),
            ],
            schema=SCHEMA,
        )


@lru_cache(maxsize=4)
def _chunk(plays: Plays, chunk: int) -> pa.RecordBatch:
    """Drawn once for all who take a few of it at a time: a steady load takes dozens."""
    return plays.drawn(chunk)


def _cumulative(n: int, exponent: float) -> npt.NDArray[np.float64]:
    weights = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(weights)
    return np.asarray(total / total[-1])
