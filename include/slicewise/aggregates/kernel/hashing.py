"""A value has one 64-bit hash: XXH64 with one seed over its canonical bytes, for ever.

Whole columns of 8-byte values are hashed with NumPy's integers, text by the library; both
are the same function (specification: xxHash, doc/xxhash_spec.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

SEED = 0x736C696365776973
"""In the partial_id of whatever stores what follows from hashes."""

GOLDEN = 0x9E3779B97F4A7C15
_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_START = np.uint64((SEED + 0x27D4EB2F165667C5 + 8) % 2**64)


def hash_stored(stored: Any) -> NDArray[np.uint64]:
    """Hashes of stored values: int64 (or booleans, as int64) by their 8 bytes, byte strings
    whole."""
    if isinstance(stored, np.ndarray):
        return _hash_words(stored.astype(np.int64).view(np.uint64))
    assert isinstance(stored, pa.Array)
    digest = xxhash.xxh64_intdigest
    return np.array([digest(text, SEED) for text in stored.to_pylist()], np.uint64)


def hash_one(stored: int | bytes) -> int:
    """The hash of one stored value."""
    raw = stored if isinstance(stored, bytes) else int(stored).to_bytes(8, "little", signed=True)
    return int(xxhash.xxh64_intdigest(raw, SEED))


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of SplitMix64 (Steele, Lea, Flood 2014) of each word: further hashes from a hash."""
    words = words + np.uint64(GOLDEN)
    # two columns in all: of thousands of words the memory takes longer than the sums
    shifted = words >> np.uint64(30)
    words ^= shifted
    words *= np.uint64(_M1)
    words ^= np.right_shift(words, np.uint64(27), out=shifted)
    words *= np.uint64(_M2)
    words ^= np.right_shift(words, np.uint64(31), out=shifted)
    return words


def mixed_one(word: int) -> int:
    """The same of one word."""
    word = (word + GOLDEN) % 2**64
    word = (word ^ (word >> 30)) * _M1 % 2**64
    word = (word ^ (word >> 27)) * _M2 % 2**64
    return word ^ (word >> 31)


def _hash_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = _START ^ (_rotate(words * _P2, 31) * _P1)
    mixed = _rotate(mixed, 27) * _P1 + _P4
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _P2
    mixed = (mixed ^ (mixed >> np.uint64(29))) * _P3
    return mixed ^ (mixed >> np.uint64(32))


def _rotate(words: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
