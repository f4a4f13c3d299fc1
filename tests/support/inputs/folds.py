"""Folds as a user writes them: how often a value rose, beside the same rule without a fold in the
oracle."""

from __future__ import annotations

from typing import Any


def nothing() -> Any:
    return (None, 0)


def rise(state: Any, event: Any) -> Any:
    last, n = state
    now = event["stars"]
    if now is None:
        return state
    return (now, n + 1 if last is not None and now > last else n)


def rises(state: Any) -> Any:
    return state[1]
