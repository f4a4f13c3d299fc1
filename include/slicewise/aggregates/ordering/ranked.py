"""Entries are ranked by value, ties by the total order: the earliest event wins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import IDENTITY, Field, Items
from slicewise.aggregates.kernel.ragged import Int64, Ragged
from slicewise.aggregates.kernel.ranking import Key, choose, identity_order, rows_order
from slicewise.aggregates.kernel.values import ORDERED, ValueType, flat, is_ordered
from slicewise.aggregates.limits import check_whole
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.ordering.scalar_ranks import ScalarRanks
from slicewise.aggregates.registry import register
from slicewise.aggregates.stored_form import State

MOST_ENTRIES = 1_000


@dataclass(frozen=True)
class OfK(Aggregate):
    """Base of aggregates that keep k entries."""

    k: int

    def __post_init__(self) -> None:
        check_whole("k", self.k, 1, MOST_ENTRIES, self.describe())

    @property
    def entries(self) -> int:
        """The number of entries that are kept."""
        return self.k


def _kinds() -> list[dict[str, pa.DataType]]:
    return [
        {"p": pa.string(), "b": pa.float64()},
        {"p": pa.int64(), "b": pa.string()},
        {"p": pa.decimal128(12, 3), "b": pa.timestamp("us", "UTC")},
        {"p": pa.bool_(), "b": pa.decimal128(12, 3)},
    ]


def _single(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        *(cls("p", "b").bind(types) for types in _kinds()),
        cls("x", "x").bind({"x": pa.int64()}),
    ]


def _several(cls: type[Any]) -> Sequence[Aggregate]:
    return [cls("p", "b", k).bind(types) for k, types in zip((3, 2, 1, 4), _kinds(), strict=True)]


@dataclass(frozen=True)
class Ranked(Aggregate):
    """Base of argmin, argmax, top-k and bottom-k. Events whose `by` is null do not count.

    Partial: the entries in rank order, as four lists: `identity`, `by`, `payload` and
    `payload_valid` (0 where the payload is null).
    """

    largest: ClassVar[bool]
    payload: str
    by: str

    @property
    def entries(self) -> int:
        """The number of entries that are kept."""
        return 1

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.payload, self.by)))

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) else ORDERED

    def stored(self) -> Mapping[str, Any]:
        order = "desc" if self.largest else "asc"
        return {
            "form": "rank",
            "payload": self.payload,
            "by": self.by,
            "k": self.entries,
            "order": order,
        }

    @cached_property
    def by_value(self) -> ValueType:
        """The stored type of the ranking column."""
        return ValueType(self.type_of(self.by))

    @cached_property
    def payload_value(self) -> ValueType:
        """The stored type of the payload."""
        return ValueType(self.type_of(self.payload))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        by, payload = self.by_value.field("by"), self.payload_value.field("payload")
        return (Items("identity", IDENTITY), by, payload, Items("payload_valid", "|u1"))

    @property
    def most_items(self) -> int:
        return self.entries

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        rows, groups = rows.present(self.by, self.inputs, groups)
        by = self.by_value.store(rows.columns[self.by])
        chosen, offsets = choose(self._rank(by), rows_order(rows), groups, n_groups, self.entries)
        payload = rows.columns[self.payload].take(pa.array(chosen))
        valid = payload.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        every = np.arange(len(chosen))
        return Columns(
            n_groups,
            {
                "identity": Ragged(offsets, rows.identities(chosen)),
                "by": self.by_value.listed(by, chosen, offsets),
                "payload": self.payload_value.listed(
                    self.payload_value.store(payload), every, offsets
                ),
                "payload_valid": Ragged(offsets, valid),
            },
        )

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        partials.abreast("identity", "by", "payload", "payload_valid")
        identity, valid = partials.items("identity"), partials.items("payload_valid")
        by, payload = flat(partials.lists("by")), flat(partials.lists("payload"))
        ties, of = identity_order(identity.values), groups[identity.row_numbers()]
        chosen, offsets = choose(self._rank(by), ties, of, n_groups, self.entries)
        return Columns(
            n_groups,
            {
                "identity": Ragged(offsets, identity.values[chosen]),
                "by": self.by_value.listed(by, chosen, offsets),
                "payload": self.payload_value.listed(payload, chosen, offsets),
                "payload_valid": Ragged(offsets, valid.values[chosen]),
            },
        )

    def _rank(self, by: Any) -> Key:
        order = self.by_value.order(by)
        return ~order if self.largest else order

    @cached_property
    def scalar(self) -> ScalarRanks | None:
        if not ScalarRanks.takes(self.by_value, self.payload_value):
            return None
        return ScalarRanks(
            self.entries, self.largest, self.by_value, self.payload_value, self.value_of
        )

    @staticmethod
    @abstractmethod
    def value_of(entries: list[tuple[Any, Any]]) -> Any:
        """The finished value of (by, payload) of the entries, the best first."""

    def _payloads(self, partials: Columns) -> pa.Array:
        partials.abreast("identity", "by", "payload", "payload_valid")
        valid = partials.items("payload_valid").values != 0
        return self.payload_value.load(flat(partials.lists("payload")), valid)

    def accumulate(self, state: State, event: Event) -> State:
        by, payload = event.columns[self.by], event.columns[self.payload]
        if by is None:
            return state
        nothing: Any = b"" if self.payload_value.dtype is None else 0
        stored = nothing if payload is None else self.payload_value.store_one(payload)
        entry = (event.identity(), self.by_value.store_one(by), stored, int(payload is not None))
        return self.combine(state, tuple((value,) for value in entry))

    def combine(self, a: State, b: State) -> State:
        entries = sorted([*zip(*a, strict=True), *zip(*b, strict=True)], key=lambda entry: entry[0])
        entries.sort(key=lambda entry: self.by_value.order_one(entry[1]), reverse=self.largest)
        kept = entries[: self.entries]
        return tuple(zip(*kept, strict=True)) if kept else self.empty()

    def _payload(self, state: State, i: int) -> Any:
        return self.payload_value.load_one(state[2][i]) if state[3][i] else None


@dataclass(frozen=True)
class Best(Ranked):
    """One entry; finished to its payload."""

    @property
    def output_type(self) -> pa.DataType:
        return self.payload_value.arrow

    def finish_columns(self, partials: Columns) -> Finished:
        return Finished(foremost(partials.items("identity").offsets, self._payloads(partials)))

    @staticmethod
    def value_of(entries: list[tuple[Any, Any]]) -> Any:
        return entries[0][1] if entries else None

    def finish(self, state: State) -> Any:
        return self._payload(state, 0) if state[0] else None


@register(_single)
@dataclass(frozen=True)
class ArgMin(Best):
    """The payload of the event whose `by` is least, the earliest of several; null without any."""

    kind = "argmin"
    largest = False


@register(_single)
@dataclass(frozen=True)
class ArgMax(Best):
    """The payload of the event whose `by` is greatest, the earliest of several; null without
    any."""

    kind = "argmax"
    largest = True


@dataclass(frozen=True)
class Several(OfK, Ranked):
    """k entries; finished to list<struct<by, payload>>, the best first; null without any."""

    @property
    def output_type(self) -> pa.DataType:
        entry = [("by", self.by_value.arrow), ("payload", self.payload_value.arrow)]
        return pa.list_(pa.struct(entry))

    def finish_columns(self, partials: Columns) -> Finished:
        by = self.by_value.load(flat(partials.lists("by")))
        entries = pa.StructArray.from_arrays(
            [by, self._payloads(partials)], fields=list(self.output_type.value_type)
        )
        return Finished(listing(partials.items("identity").offsets, entries))

    @staticmethod
    def value_of(entries: list[tuple[Any, Any]]) -> Any:
        return [{"by": by, "payload": payload} for by, payload in entries] or None

    def finish(self, state: State) -> list[dict[str, Any]] | None:
        entries = [
            {"by": self.by_value.load_one(by), "payload": self._payload(state, i)}
            for i, by in enumerate(state[1])
        ]
        return entries or None


@register(_several)
@dataclass(frozen=True)
class TopK(Several):
    """The k events of greatest `by`, each with its payload; the earliest of equals first."""

    kind = "top_k"
    largest = True


@register(_several)
@dataclass(frozen=True)
class BottomK(Several):
    """The k events of least `by`, each with its payload; the earliest of equals first."""

    kind = "bottom_k"
    largest = False


def foremost(offsets: Int64, values: pa.Array) -> pa.Array:
    """The first value of each row [n]; null of a row without any."""
    missing = offsets[1:] == offsets[:-1]
    return values.take(pa.array(np.where(missing, 0, offsets[:-1]), mask=missing))


def listing(offsets: Int64, values: pa.Array) -> pa.Array:
    """list<...> [n]; a row without values is null."""
    empty = offsets[1:] == offsets[:-1]
    bounds = pa.array(offsets.astype(np.int32), mask=np.append(empty, False))
    return pa.ListArray.from_arrays(bounds, values)
