"""A stored partial is data: a tuple of fields of three kinds, and nothing else.

From the fields of an aggregate follow its bytes (`slicewise.codec`), the
columns of the tables that keep it, and its column form in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fixed:
    """One little-endian scalar per row: `<i8`, `<i4`, `<f8` or `|u1`.

    No wider unsigned type: Iceberg and Spark have none.
    """

    name: str
    dtype: str


@dataclass(frozen=True)
class Items:
    """Per row a list of fixed-width items, stored as their raw bytes."""

    name: str
    dtype: str | np.dtype[np.void]

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The dtype of one item."""
        return np.dtype(self.dtype)


@dataclass(frozen=True)
class Texts:
    """Per row a list of byte strings of any length (UTF-8 text, decimal keys)."""

    name: str


Field = Fixed | Items | Texts

IDENTITY: np.dtype[np.void] = np.dtype(
    [
        ("time", ">u8"),
        ("topic_hi", ">u8"),
        ("topic_lo", ">u8"),
        ("partition", ">u4"),
        ("offset", ">u8"),
    ]
)
"""An event's place in the total order, 36 bytes.

`time` is the event time in microseconds with its sign bit flipped, so that the
order of the bytes (memcmp) is the total order of events.
"""

SIGN_BIT = 1 << 63
