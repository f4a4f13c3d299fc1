"""Few partials are combined as Python's own numbers, to the bits of the whole-column form.

NumPy costs microseconds per call whatever the number of rows: up to some hundreds of rows, which is
what one entity's read brings, sums and extremes over slices of plain tuples are faster. What has
this form is told by `Aggregate.scalar`; the laws hold it equal to the column form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slicewise.errors import CodecError

Run = tuple[int, int]
"""Half-open range of rows."""
Groups = Sequence[Sequence[int]]
"""Per group the numbers of the runs that it holds; those after the last run are the cached
states."""


@dataclass(frozen=True, eq=False)
class Scalars:
    """Finished values as Python's own, and per failed position its error code (its value is
    None)."""

    values: list[Any]
    errors: Mapping[int, str] = field(default_factory=dict)


class ScalarForm(Protocol):
    """Combines and finishes few partials of one aggregate."""

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        """One combined partial per group, in a form of its own: a state.

        columns: per field of the aggregate its values by row; a list of fixed-width items is its
        raw bytes, one of texts a tuple of theirs. Law: aggregates of one stored form have states of
        one shape, so that any of them finishes what another combined.

        cached: states that were combined before, numbered after the runs.
        """
        ...

    def finish(self, combined: Sequence[Any]) -> Scalars:
        """The value of each, as `finish_columns` gives it."""
        ...


@dataclass(frozen=True)
class Tallies:
    """Integer fields that add up; `value` finishes the tuple of them."""

    value: Callable[[tuple[int, ...]], Any]

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        totals = [
            [sum(column[a:b]) for a, b in runs] + [state[at] for state in cached]
            for at, column in enumerate(columns)
        ]
        if len(totals) == 1:
            only = totals[0]
            return [(sum([only[run] for run in group]),) for group in groups]
        return [tuple([sum([total[run] for run in group]) for total in totals]) for group in groups]

    def finish(self, combined: Sequence[Any]) -> Scalars:
        return Scalars(list(map(self.value, combined)))


@dataclass(frozen=True)
class Sums:
    """Exact sums: (n, limb_start, limbs), combined to (n, total, limbs that it is shifted down by).

    value: of (n > 0, total, shift); failed: the error's code of what it gave, None of a value.
    """

    value: Callable[[int, int, int], Any]
    failed: Callable[[Any], str | None]

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        counts, starts, limbs = columns
        whole = int.from_bytes
        numbers = [whole(raw, "little", signed=True) for raw in limbs]
        units = {*starts, *[state[2] for state in cached if state[1]]}
        least = min(units, default=0)
        if len(units) > 1:
            # numbers of unlike size: brought to one unit
            numbers = [
                number << ((start - least) << 5)
                for number, start in zip(numbers, starts, strict=True)
            ]
            cached = [
                (n, total << (max(start - least, 0) << 5), least) for n, total, start in cached
            ]
        n = [sum(counts[a:b]) for a, b in runs] + [state[0] for state in cached]
        totals = [sum(numbers[a:b]) for a, b in runs] + [state[1] for state in cached]
        return [
            (sum([n[run] for run in group]), sum([totals[run] for run in group]), least)
            for group in groups
        ]

    def finish(self, combined: Sequence[Any]) -> Scalars:
        value = self.value
        values = [value(*state) if state[0] else None for state in combined]
        if _PLAIN.issuperset(map(type, values)):
            return Scalars(values)
        errors: dict[int, str] = {}
        for position, finished in enumerate(values):
            if type(finished) not in _PLAIN:
                code = self.failed(finished)
                if code is not None:
                    errors[position], values[position] = code, None
        return Scalars(values, errors)


_PLAIN = frozenset((float, int, type(None)))


@dataclass(frozen=True)
class Extremes:
    """Least or greatest: (value, present), combined to the value, or None without any.

    key: an order for values that Python does not order itself, which are NaN alone.
    """

    largest: bool
    key: Callable[[Any], Any]

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        values, present = columns
        best: Any = max if self.largest else min
        # a NaN, or infinities of both signs: looked at one by one
        if math.isnan(sum(values) + sum(_some(cached))):
            best = _By(best, self.key)
        if 0 not in present:
            bests = [best(values[a:b]) if b > a else None for a, b in runs]
        else:
            kept = [
                value if is_present else None
                for value, is_present in zip(values, present, strict=True)
            ]
            bests = [best(some) if (some := _some(kept[a:b])) else None for a, b in runs]
        bests += cached
        if None in bests:
            return [
                best(some) if (some := _some([bests[run] for run in group])) else None
                for group in groups
            ]
        return [best([bests[run] for run in group]) if group else None for group in groups]

    def finish(self, combined: Sequence[Any]) -> Scalars:
        return Scalars(list(combined))


@dataclass(frozen=True)
class Outermost:
    """The one entry of the least or greatest identity: (identity, value), both as stored.

    Combined to that pair, or None without any; bytes of identities compare as the total order.
    """

    newest: bool
    length: int
    """Length of what is stored of a value: bytes of a number, one text."""
    load: Callable[[Any], Any]
    """Makes the value of what is stored: of a number its raw bytes, of a text a tuple of it."""
    listed: bool = False
    """True where the value is finished to a list of it, as the first or last one of k."""

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        best: Any = max if self.newest else min
        identities, values = columns
        if list(map(len, values)) != [self.length if identity else 0 for identity in identities]:
            raise CodecError(
                "lists of identities and of values of unlike lengths",
                expected="one item each per entry",
            )
        entries = list(zip(identities, values, strict=True))
        bests = [best([entry for entry in entries[a:b] if entry[0]], default=None) for a, b in runs]
        bests += cached
        return [best(_some([bests[run] for run in group]), default=None) for group in groups]

    def finish(self, combined: Sequence[Any]) -> Scalars:
        return Scalars([None if state is None else self._value(state[1]) for state in combined])

    def _value(self, stored: Any) -> Any:
        value = self.load(stored)
        return [value] if self.listed else value


@dataclass(frozen=True)
class _By:
    best: Any
    key: Callable[[Any], Any]

    def __call__(self, values: Sequence[Any]) -> Any:
        return self.best(values, key=self.key)


def _some(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


@dataclass(frozen=True)
class Spans:
    """First and last: (first, last, present), combined to (first, last), or None without any."""

    overflow: str

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        spans = [
            (first, last) if is_present else None
            for first, last, is_present in zip(*columns, strict=True)
        ]
        by_run = [_outermost(spans[a:b]) for a, b in runs] + list(cached)
        return [_outermost([by_run[run] for run in group]) for group in groups]

    def finish(self, combined: Sequence[Any]) -> Scalars:
        values = [None if span is None else span[1] - span[0] for span in combined]
        errors = {
            at: self.overflow
            for at, value in enumerate(values)
            if value is not None and value >= 2**63
        }
        return Scalars([None if at in errors else value for at, value in enumerate(values)], errors)


def _outermost(spans: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    some = [span for span in spans if span is not None]
    return (min([first for first, _ in some]), max([last for _, last in some])) if some else None
