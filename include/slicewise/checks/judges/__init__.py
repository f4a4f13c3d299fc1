"""Answers of aggregates over the rows of a window, in plain Python that shares no code with the
algebra.

A family of aggregates has a module here. Judges are loaded by name, so that Spark's workers find
them too.

Doors: judged, exact.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from slicewise.errors import UnknownName


class Row(NamedTuple):
    """An event that takes part: its place in the total order, and its values by column.

    Instants are microseconds; a double's negative zero is zero.
    """

    t: int
    topic: str
    partition: int
    offset: int
    values: Mapping[str, Any]


END = "end_us"
"""Parameter that a judge finds beside the others where there are rows: the instant that ages are
counted from, in microseconds: the end of the window, of an exact one that holds the instant asked
for that instant."""

Judge = Callable[[Sequence[Row], Mapping[str, Any]], Any]
"""(rows in total order, the aggregate's own description of kind and parameters) -> the finished
value."""

_JUDGES: dict[str, Judge] = {}
_ORDER = itemgetter(0, 1, 2, 3)


def judge(*kinds: str) -> Callable[[Judge], Judge]:
    """Function decorator: what says the values of aggregates of these kinds."""

    def enter(function: Judge) -> Judge:
        for kind in kinds:
            if kind in _JUDGES:
                raise ValueError(f"two judges of {kind!r}")
            _JUDGES[kind] = function
        return function

    return enter


@cache
def judges() -> Mapping[str, Judge]:
    """All judges, by kind."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _JUDGES


def judged(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The value of an aggregate over rows in any order.

    spec: kind and parameters, as `Aggregate.spec` gives them. Raises UnknownName for a kind without
    a judge.
    """
    judgement = judges().get(spec["kind"])
    if judgement is None:
        raise UnknownName(
            f"no judge of {spec['kind']!r}",
            expected="one of " + ", ".join(sorted(judges())),
            next_step="add one to slicewise.checks.judges: no feature goes unchecked",
        )
    return judgement(sorted(rows, key=_ORDER), spec)
