"""Buckets are kept while their keys are at most a stated number, beyond it only that they were
more.

A union never has fewer keys than its parts: the capacity is passed at the same multiset of events,
whatever their order, split or tree, and an answer is exact or refused (docs/adr/0032).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates.combinators.conditional import check_inner, only
from slicewise.aggregates.combinators.nesting import (
    aligned,
    nest,
    nest_states,
    nested_fields,
    unnest,
    unnest_states,
)
from slicewise.aggregates.contract import Aggregate, Invertible
from slicewise.aggregates.exact import DecayCount
from slicewise.aggregates.exact.counting import Count, add_groups, tally
from slicewise.aggregates.exact.sums import Sum
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.grouping import coded, numbered
from slicewise.aggregates.kernel.ragged import Int64, Ragged, offsets_of
from slicewise.aggregates.kernel.values import ValueType, flat, is_double, is_ordered, non_null
from slicewise.aggregates.operations import Ends, Failed, Finished
from slicewise.aggregates.ordering.extremes import Max
from slicewise.aggregates.ordering.latest import LastK
from slicewise.aggregates.ordering.ranked import ArgMax, listing
from slicewise.aggregates.registry import from_spec, register
from slicewise.aggregates.sketches.distinct import DistinctCount
from slicewise.aggregates.sketches.membership import membership_of
from slicewise.aggregates.stored_form import State
from slicewise.errors import DefinitionError

MOST_BUCKETS = 10_000
TOO_MANY = "too_many_buckets"
"""Error code: there were more keys than the stated capacity."""
KEYS = (
    "an integer, decimal, boolean, text, timestamp(us) or date column, or an array: equal keys "
    "must be equal bytes"
)


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    types = {
        "x": pa.float64(),
        "s": pa.string(),
        "i": pa.int64(),
        "b": pa.bool_(),
        "d": pa.date32(),
    }
    types |= {"a": pa.list_(pa.string()), "n": pa.list_(pa.int64()), "w": pa.list_(pa.bool_())}
    return [
        made.bind(types)
        for made in [
            cls(Count(), "s", 3),
            cls(Sum("i"), "b"),
            cls(Max("s"), "d", 3),
            cls(ArgMax("s", "x"), "i", 3),
            cls(DistinctCount("s", 2, 4), "b", 2),
            cls(only(Sum("x"), "b", "b"), "s", 4),
            cls(cls(LastK("s", 2), "i", 2), "b", 2),
            cls(only(DecayCount("3650d"), "b", "b"), "s", 4),
            cls(Count(), "a", 5),
            cls(LastK("s", 2), "n", 6),
            cls(Sum("i"), "w", 2),
        ]
    ]


def key_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's keys: of an array that of its elements."""
    return kind.value_type if pa.types.is_list(kind) else kind


@register(_examples)
@dataclass(frozen=True)
class Bucketed(Aggregate):
    """One aggregate per value of a second column: list<struct<key, value>>, ascending by key; null
    without any.

    Text keys by their UTF-8 bytes; a null is no key. Of an array column each element is a key, and
    an event counts once for each different one that it holds. Beyond `max_buckets` keys the answer
    is null with `too_many_buckets`, exact up to there; where a bucket's own value is an error, so
    is the answer. Partial: `more` (1 beyond the capacity, with all lists empty), `key`, `n` events
    per bucket, and the buckets' partials nested; for plain counts `n` is all.
    """

    kind = "bucketed"
    aggregate: Aggregate
    by: str
    max_buckets: int = 100

    def __post_init__(self) -> None:
        check_inner(self.aggregate, self.kind)
        if membership_of(self.aggregate) is not None:
            raise DefinitionError(
                f"{self.aggregate.describe()} in buckets",
                where=f"{self.kind}(…, by={self.by!r})",
                expected="an aggregate that answers by itself: of a filter a reader asks one value",
                next_step=f"make {self.by!r} an entity column, or ask for values that hold it (CONCAT)",
            )
        most = self.max_buckets
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_BUCKETS:
            raise DefinitionError(
                f"the capacity is {most!r} buckets",
                where=self.describe(),
                expected=f"an integer from 1 to {MOST_BUCKETS}",
                next_step="beyond it group by a coarser column, or make the key an entity column",
            )

    def answers(self, length_us: int) -> str | None:
        return self.aggregate.answers(length_us)

    def resolve(self, named: Callable[[str], str]) -> Aggregate:
        return replace(self, aggregate=self.aggregate.resolve(named))

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.by, *self.aggregate.inputs)))

    def accepts(self, column: str, kind: pa.DataType) -> str | None:
        if column == self.by and (not is_ordered(key_type(kind)) or is_double(key_type(kind))):
            return KEYS
        return self.aggregate.accepts(column, kind) if column in self.aggregate.inputs else None

    def bind(self, types: Mapping[str, pa.DataType]) -> Aggregate:
        bound = super().bind(types)
        assert isinstance(bound, Bucketed)
        inner = self.aggregate.bind(types)
        # Only where the capacity cannot be passed: what was dropped beyond it cannot come back.
        closed = pa.types.is_boolean(key_type(types[self.by])) and self.max_buckets >= 2
        kind = InvertibleBucketed if closed and isinstance(inner, Invertible) else Bucketed
        return kind(inner, self.by, self.max_buckets, types=bound.types)

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "aggregate": self.aggregate.spec()}

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> Aggregate:
        return cls(**{**parameters, "aggregate": from_spec(parameters["aggregate"])})

    def meaning(self) -> dict[str, Any]:
        return {**super().spec(), "aggregate": self.aggregate.meaning()}

    def describe(self) -> str:
        return (
            f"{self.kind}({self.aggregate.describe()}, by={self.by!r}, "
            f"max_buckets={self.max_buckets!r})"
        )

    def stored(self) -> Mapping[str, Any]:
        inner = json.loads(self.aggregate.partial_id())
        return {"form": "buckets", "by": self.by, "max": self.max_buckets, "of": inner}

    @cached_property
    def key(self) -> ValueType:
        """The stored type of the keys."""
        return ValueType(key_type(self.type_of(self.by)))

    @property
    def counts(self) -> bool:
        """Tells whether the events of a bucket are all that is asked of it."""
        return isinstance(self.aggregate, Count) and self.aggregate.column is None

    @cached_property
    def nested(self) -> tuple[Field, ...]:
        """The fields of a bucket's partial, beyond how many events it has."""
        return () if self.counts else self.aggregate.fields

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Fixed("more", "|u1"),
            self.key.field("key"),
            Items("n", "<i8"),
            *nested_fields(self.nested),
        )

    def longest(self, events: int) -> Mapping[str, int]:
        several = pa.types.is_list(self.type_of(self.by))  # of one event
        buckets = self.max_buckets if several and events else min(events, self.max_buckets)
        inner = self.aggregate.longest(events) if not self.counts else {}
        longest = {field.name: buckets for field in self.fields if not isinstance(field, Fixed)}
        return longest | {f"of_{name}": buckets * most for name, most in inner.items()}

    @property
    def output_type(self) -> pa.DataType:
        return pa.list_(pa.struct([("key", self.key.arrow), ("value", self.aggregate.output_type)]))

    # ---- whole columns

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        rows, groups, universe, code = self._keyed(rows, groups)
        pairs, bucket = numbered(groups * len(universe) + code, n_groups * len(universe))
        n = tally(bucket, len(pairs))
        inner = (
            Columns(len(pairs), {"n": n})
            if self.counts
            else self.aggregate.accumulate_columns(rows, bucket, len(pairs))
        )
        return self._columns(np.zeros(n_groups, np.bool_), universe, pairs, n, inner)

    def _keyed(self, rows: Rows, groups: Int64) -> tuple[Rows, Int64, Any, Int64]:
        """The events beside their keys, once for each that they have; their groups; all keys, and
        which of them."""
        rows, groups = rows.present(self.by, self.inputs, groups)
        column = rows.columns[self.by]
        if not pa.types.is_list(column.type):
            return rows, groups, *coded(self.key.store(column), self.key)
        keys, owners = non_null(
            pc.list_flatten(column), pc.list_parent_indices(column).to_numpy().astype(np.int64)
        )[:2]
        universe, code = coded(self.key.store(keys), self.key)
        once = np.unique(owners * len(universe) + code)
        at, code = np.divmod(once, max(1, len(universe)))
        return rows.take(at, self.aggregate.inputs), groups[at], universe, code

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        more = np.zeros(n_groups, np.bool_)
        more[groups[partials.fixed("more") != 0]] = True
        keys = partials.lists("key")
        n, inner = self._buckets(partials)
        universe, code = coded(flat(keys), self.key)
        owners = groups[keys.row_numbers()]
        pairs, bucket = numbered(owners * len(universe) + code, n_groups * len(universe))
        n = add_groups(n, bucket, len(pairs))
        inner = (
            Columns(len(pairs), {"n": n})
            if self.counts
            else self.aggregate.combine_columns(inner, bucket, len(pairs))
        )
        return self._columns(more, universe, pairs, n, inner)

    def _buckets(self, partials: Columns) -> tuple[Int64, Columns]:
        """The number of events of every bucket, and the buckets' partials."""
        offsets = partials.lists("key").offsets
        n = aligned(partials, "n", offsets).values
        if self.counts:
            return n, Columns(len(n), {"n": n})
        return n, unnest(self.nested, partials, offsets)

    def _columns(
        self, more: NDArray[np.bool_], universe: Any, pairs: Int64, n: Int64, inner: Columns
    ) -> Columns:
        """Partials [n_groups] of buckets in order of (group, key); without those of groups that
        have too many."""
        groups, code = np.divmod(pairs, max(1, len(universe)))
        more = more | (tally(groups, len(more)) > self.max_buckets)
        if more.any():
            kept = np.flatnonzero(~more[groups])
            groups, code, n = groups[kept], code[kept], n[kept]
            inner = inner.take(kept)
        offsets = offsets_of(tally(groups, len(more)))
        values: dict[str, Values] = {
            "more": more.astype(np.uint8),
            "key": self.key.listed(universe, code, offsets),
            "n": Ragged(offsets, n),
            **nest(self.nested, inner, offsets),
        }
        return Columns(len(more), values)

    def finish_columns(self, partials: Columns) -> Finished:
        return self._finished(partials, self.aggregate.finish_columns(self._buckets(partials)[1]))

    def finish_columns_at(self, partials: Columns, ends: Ends) -> Finished:
        rows = partials.lists("key").row_numbers()
        inner = self._buckets(partials)[1]
        return self._finished(
            partials, self.aggregate.finish_columns_at(inner, lambda: ends()[rows])
        )

    def _finished(self, partials: Columns, finished: Finished) -> Finished:
        """finished: the values of all buckets."""
        keys = partials.lists("key")
        rows = keys.row_numbers()
        errors = {
            int(rows[bucket]): finished.errors[bucket]
            for bucket in sorted(finished.errors, reverse=True)
        }
        errors |= dict.fromkeys(np.flatnonzero(partials.fixed("more")).tolist(), TOO_MANY)
        loaded, values, lengths = self.key.load(flat(keys)), finished.values, keys.lengths
        if errors:
            refused = np.zeros(partials.n, np.bool_)
            refused[list(errors)] = True
            kept = pa.array(~refused[rows])
            loaded, values, lengths = (
                loaded.filter(kept),
                values.filter(kept),
                np.where(refused, 0, lengths),
            )
        entries = pa.StructArray.from_arrays(
            [loaded, values], fields=list(self.output_type.value_type)
        )
        return Finished(listing(offsets_of(lengths), entries), errors)

    # ---- rows

    def _open(self, state: State) -> dict[Any, tuple[int, State]]:
        """Key -> events and partial of its bucket."""
        _, keys, counts, *rest = state
        inner = (
            [(n,) for n in counts]
            if self.counts
            else unnest_states(self.nested, tuple(rest), len(keys))
        )
        return dict(zip(keys, zip(counts, inner, strict=True), strict=True))

    def _close(self, more: bool, buckets: Mapping[Any, tuple[int, State]]) -> State:
        if more or len(buckets) > self.max_buckets:
            return (1, *self.empty()[1:])
        keys = sorted(buckets, key=self.key.order_one)
        inner = nest_states(self.nested, [buckets[key][1] for key in keys])
        return (0, tuple(keys), tuple(buckets[key][0] for key in keys), *inner)

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.by]
        if value is None or state[0]:
            return state
        buckets = self._open(state)
        elements = value if pa.types.is_list(self.type_of(self.by)) else [value]
        for key in {self.key.store_one(element) for element in elements if element is not None}:
            n, inner = buckets.get(key, (0, self.aggregate.empty()))
            buckets[key] = (n + 1, self.aggregate.accumulate(inner, event))
        return self._close(False, buckets)

    def combine(self, a: State, b: State) -> State:
        left, right = self._open(a), self._open(b)
        for key, (n, inner) in right.items():
            count, partial = left.get(key, (0, self.aggregate.empty()))
            left[key] = (count + n, self.aggregate.combine(partial, inner))
        return self._close(bool(a[0] or b[0]), left)

    def finish(self, state: State) -> list[dict[str, Any]] | Failed | None:
        return self._finish(state, self.aggregate.finish)

    def finish_at(self, state: State, end_us: int) -> list[dict[str, Any]] | Failed | None:
        return self._finish(state, lambda inner: self.aggregate.finish_at(inner, end_us))

    def _finish(
        self, state: State, finish: Callable[[State], Any]
    ) -> list[dict[str, Any]] | Failed | None:
        if state[0]:
            return Failed(TOO_MANY)
        entries: list[dict[str, Any]] = []
        for key, (_, inner) in self._open(state).items():
            value = finish(inner)
            if isinstance(value, Failed):
                return value
            entries.append({"key": self.key.load_one(key), "value": value})
        return entries or None


@dataclass(frozen=True)
class InvertibleBucketed(Bucketed, Invertible):
    """Over keys that can never be too many, of an aggregate whose combine can be undone."""

    @property
    def _inner(self) -> Invertible:
        assert isinstance(self.aggregate, Invertible)
        return self.aggregate

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        keys, others = whole.lists("key"), part.lists("key")
        universe, code = coded(flat(keys), self.key)
        other_universe, other_code = coded(flat(others), self.key)
        code_of = np.searchsorted(universe, other_universe)[other_code]
        pairs = keys.row_numbers() * len(universe) + code
        at = np.searchsorted(pairs, others.row_numbers() * len(universe) + code_of)
        n, inner = self._buckets(whole)
        less, taken = self._buckets(part)
        left = n - add_groups(less, at, len(pairs))
        rest = np.flatnonzero(left)  # a bucket without events is none
        if self.counts:
            inner = Columns(len(pairs), {"n": left})
        else:
            inner = self._inner.deduct_columns(
                inner, self._inner.combine_columns(taken, at, len(pairs))
            )
        return self._columns(
            np.zeros(whole.n, np.bool_), universe, pairs[rest], left[rest], inner.take(rest)
        )

    def deduct(self, whole: State, part: State) -> State:
        opened = self._open(whole)
        for key, (n, inner) in self._open(part).items():
            count, partial = opened.pop(key)
            if count > n:
                opened[key] = (count - n, self._inner.deduct(partial, inner))
        return self._close(False, opened)
