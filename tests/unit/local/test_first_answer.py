"""A newcomer is shown the first answer that says something; no stream is done while the past
loads."""

from __future__ import annotations

from typing import Any

import pytest

from slicewise.local.catching_up import LOADED_WITHIN_MS, is_loaded
from slicewise.local.first_answer import values


def answered(status: int, **actual: object) -> dict[str, Any]:
    return {"request": {}, "status": status, "answer": {"results": [{"values": actual}]}}


def test_an_answer_of_which_any_value_is_known_says_something() -> None:
    assert values(answered(200, delay=None, flights=3)) == {"delay": None, "flights": 3}


@pytest.mark.parametrize(
    "shown", [{}, answered(200, delay=None, flights=0, worst=[]), {"status": 503, "answer": {}}]
)
def test_others_say_nothing(shown: dict[str, Any]) -> None:
    assert values(shown) == {}


@pytest.mark.parametrize(
    ("newest_ms", "loaded"),
    [
        (None, False),
        (0, False),
        (10_000_000 - LOADED_WITHIN_MS - 1, False),
        (10_000_000 - LOADED_WITHIN_MS, True),
    ],
)
def test_the_past_is_loaded_when_the_newest_event_arrived_just_now(
    newest_ms: int | None, loaded: bool
) -> None:
    assert is_loaded(newest_ms, 10_000_000) is loaded
