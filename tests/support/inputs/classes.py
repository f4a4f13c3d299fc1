"""Aggregates as users write them, for tests that take them the whole way."""

from __future__ import annotations

from typing import Any

import slicewise as sw


class Reach(sw.Aggregate):
    """Distance from the least to the greatest; null where all are alike."""

    columns = {"x": "double"}  # noqa: RUF012
    fields = {"least": "double", "most": "double"}  # noqa: RUF012
    output = "double"

    def empty(self) -> Any:
        return (float("inf"), float("-inf"))

    def accumulate(self, state: Any, event: Any) -> Any:
        return (min(state[0], event["x"]), max(state[1], event["x"]))

    def combine(self, a: Any, b: Any) -> Any:
        return (min(a[0], b[0]), max(a[1], b[1]))

    def finish(self, state: Any) -> Any:
        return state[1] - state[0] if state[0] < state[1] else None


class Power(sw.Aggregate):
    """The sum of a power of whole numbers, of any size, as text; an odd number of events says
    so."""

    columns = {"n": "long"}  # noqa: RUF012
    fields = {"sum": "integer", "odd": "boolean"}  # noqa: RUF012
    output = "string"
    degree: int = 2

    def empty(self) -> Any:
        return (0, False)

    def accumulate(self, state: Any, event: Any) -> Any:
        term = 1
        for _ in range(self.degree):
            term = term * event["n"]
        return (state[0] + term, not state[1])

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] != b[1])

    def deduct(self, whole: Any, part: Any) -> Any:
        return (whole[0] - part[0], whole[1] != part[1])

    def finish(self, state: Any) -> Any:
        return str(state[0]) + (" odd" if state[1] else " even")
