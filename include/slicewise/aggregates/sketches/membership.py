"""A reader asks whether values were seen; an aggregate that is asked finishes to a filter, which
answers them.

The partial, the merge and the filter know nothing of the question, so that everything up to the
finished filter is as for any aggregate. `answered` alone brings both together, at the edge:
serving, evaluation, training and the check call it. docs/adr/0033-a-question-is-a-column.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.grouping import SMALL_SORT, order_of
from slicewise.aggregates.kernel.hashing import SEED, hash_stored
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.values import ValueType, is_double, is_ordered
from slicewise.aggregates.limits import COUNTABLE, check_share, check_whole
from slicewise.aggregates.operations import Finished

OVER_CAPACITY = "over_capacity"
"""Error code: more was seen than the filter was made for, and it cannot answer within its error."""
MOST_CAPACITY = 1_000_000
LEAST_ERROR, MOST_ERROR = 1e-6, 0.5
Words = NDArray[np.uint64]
Answers = Sequence[bool | None]


@dataclass(frozen=True)
class Filter(Aggregate):
    """Base of filters: the values of a column, their number, and the share of strangers taken for
    members."""

    column: str
    capacity: int
    error: float = 0.01

    def __post_init__(self) -> None:
        where = self.describe()
        check_whole("capacity", self.capacity, 1, MOST_CAPACITY, where)
        check_share("error", self.error, LEAST_ERROR, MOST_ERROR, where)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) and not is_double(kind) else COUNTABLE

    @cached_property
    def share(self) -> Fraction:
        """The error, exactly as it was written."""
        return Fraction(repr(self.error))

    @cached_property
    def value(self) -> ValueType:
        """The stored type of the column."""
        return ValueType(self.type_of(self.column))

    def stored(self) -> Mapping[str, Any]:
        return {
            "form": self.form,
            "column": self.column,
            **self.geometry,
            "hash": f"xxh64:{SEED:016x}",
        }

    def hashes(self, array: pa.Array) -> Words:
        """Hashes of a column without nulls; each distinct text is hashed once."""
        if self.value.dtype is not None:
            return hash_stored(self.value.store(array))
        encoded = array.dictionary_encode()
        at: Int64 = encoded.indices.to_numpy()
        return hash_stored(self.value.store(encoded.dictionary))[at]

    form: ClassVar[str]
    """Name of the form of its partial."""

    @property
    @abstractmethod
    def geometry(self) -> Mapping[str, int]:
        """Figures that the partial's bytes depend on, besides the column."""


@dataclass(frozen=True)
class Membership(Filter):
    """A filter that is asked whether it holds values: finished to its bytes, answered as
    booleans."""

    @property
    def question(self) -> str:
        """The column of a reader's row that holds the value, or the list of values, that is asked
        for."""
        return self.column

    @property
    def output_type(self) -> pa.DataType:
        return pa.large_binary()

    @abstractmethod
    def contained(self, stored: bytes, hashes: Words) -> Answers:
        """Per hash whether the filter of these bytes holds its value; None where it cannot tell."""

    def answered(self, finished: Finished, questions: pa.Array) -> Finished:
        """Per row whether its value was seen: of a list of values a list; of a null null.

        questions: values of the column's type, or lists of them, one row per filter.
        """
        several = pa.types.is_list(questions.type) or pa.types.is_large_list(questions.type)
        values = questions.flatten() if several else questions
        present = values.is_valid().to_numpy(zero_copy_only=False)
        hashes = np.zeros(len(values), np.uint64)
        kept = values.drop_null().cast(self.type_of(self.column))
        hashes[present] = self.hashes(kept)
        lengths = (
            questions.value_lengths().fill_null(0).to_numpy()
            if several
            else np.ones(len(questions), np.int64)
        )
        ends = np.cumsum(lengths).tolist()
        answers: list[bool | None] = []
        errors: dict[int, str] = {}
        for row, (stored, end) in enumerate(zip(finished.values.to_pylist(), ends, strict=True)):
            here = slice(len(answers), end)
            contained = (
                [False] * len(hashes[here])
                if stored is None
                else self.contained(stored, hashes[here])
            )
            some = [
                answer if valid else None
                for answer, valid in zip(contained, present[here].tolist(), strict=True)
            ]
            if any(
                answer is None and valid
                for answer, valid in zip(contained, present[here].tolist(), strict=True)
            ):
                errors[row] = OVER_CAPACITY
            answers += some
        column = pa.array(answers, pa.bool_())
        if several:
            bounds = pa.array(
                np.append(0, ends).astype(np.int32), mask=np.append(questions.is_null(), False)
            )
            column = pa.ListArray.from_arrays(bounds, column)
        return Finished(column, errors)


def membership_of(aggregate: Aggregate) -> Membership | None:
    """The part of this aggregate that a reader asks of; None of most."""
    core: Aggregate = getattr(aggregate, "core", aggregate)
    return core if isinstance(core, Membership) else None


def answer_type(aggregate: Aggregate) -> pa.DataType:
    """Type of an answer; of what a reader asks that of one value."""
    return aggregate.output_type if membership_of(aggregate) is None else pa.bool_()


def distinct_pairs(groups: Int64, keys: Words) -> tuple[Int64, Words]:
    """All (group, key) pairs, without repeats, ascending."""
    # what is combined comes in ascending runs
    order = order_of(keys, groups, stable=len(keys) <= SMALL_SORT)
    groups, keys = groups[order], keys[order]
    first = np.ones(len(groups), bool)
    first[1:] = (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])
    return groups[first], keys[first]
