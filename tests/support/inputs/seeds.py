"""Seeds of searches: the quick suite tries the first, the whole suite all of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def seeds(numbers: Iterable[int], quick: int = 1) -> list[object]:
    """Parameters of a test for these seeds, of which `make test-fast` tries so many."""
    return [
        number if i < quick else pytest.param(number, marks=pytest.mark.long)
        for i, number in enumerate(numbers)
    ]
