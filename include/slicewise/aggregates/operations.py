"""Operations depend on the multiset of events alone: not on order, on how they are split, or on the
tree of merges.

Equal multisets give equal partials, byte for byte, on every machine. Nothing here calls libm or a
transcendental whose last bit a CPU could choose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from slicewise.aggregates.event_forms import ScalarOf
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.ranges import RangeForm
from slicewise.aggregates.scalar import ScalarForm
from slicewise.aggregates.stored_form import State

Ends = Callable[[], Int64]
"""End of each row's window, in microseconds; called by those aggregates alone that ask."""

OVERFLOW = "overflow"
"""Error code: the exact result does not fit the output type."""


@dataclass(frozen=True)
class Failed:
    """A finished value that is null because of an error; `code` names it."""

    code: str


@dataclass(frozen=True, eq=False)
class Finished:
    """Finished values [n], and per failed row its error code (its value is null)."""

    values: pa.Array
    errors: Mapping[int, str] = field(default_factory=dict)


class ByColumn(ABC):
    """Operations on whole columns: the form that batches, compaction and training run.

    No primitive changes an argument. Law of all: they agree with the row form, byte for byte.
    """

    finish_version: ClassVar[int] = 1
    """Raised where equal partials finish to another value than before: part of the definition
    fingerprint."""

    @property
    @abstractmethod
    def output_type(self) -> pa.DataType:
        """Type of a finished value, by column and by row. Required; it follows from the bound
        definition."""

    @abstractmethod
    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        """Partials [n_groups] of the rows of each group; a group without rows has the empty
        partial.

        Required. `rows` may be in any order; `groups` has a row's group, from 0 to n_groups - 1.
        Law: any order and any split of a group's rows, with `combine_columns` of the parts, gives
        the same bytes; no group bears on another.
        """

    @abstractmethod
    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        """Partials [n_groups], each of all the given partials of its group.

        Required. Partials of a group have no event in common. Law: associative and commutative,
        with the empty partial as identity.
        """

    def over_ranges(self, rows: Rows) -> RangeForm | None:  # noqa: ARG002
        """Tables in which the partial of any range of these rows is looked up.

        Optional; None: these rows are only added by groups. Those have it whose combine can be
        undone, or gives the same of partials that overlap (docs/adr/0087). `rows` are in their
        total order. Law: the same bytes as `accumulate_columns` of each range's rows.
        """
        return None

    @abstractmethod
    def finish_columns(self, partials: Columns) -> Finished:
        """The value of each partial, of `output_type`.

        Required. It reads `partials` and nothing else, so that equal partials have equal values.
        """

    def finish_columns_at(self, partials: Columns, ends: Ends) -> Finished:  # noqa: ARG002
        """The value of each partial of a window that ends there (docs/adr/0031).

        Optional, for values that age; by default the end does not matter and `ends` is not called.
        Law: as of `finish_columns`, of partials with equal ends.
        """
        return self.finish_columns(partials)

    @property
    def scalar(self) -> ScalarForm | None:
        """Combines and finishes few partials in Python's own numbers.

        Optional; None: only as whole columns. Law: the same bits as `combine_columns` and
        `finish_columns`.
        """
        return None

    @property
    def scalar_of(self) -> ScalarOf | None:
        """Makes a state of `scalar` of few events.

        Optional; None: only as whole columns. Requires `scalar`. Law: the same state as `scalar`
        makes of `accumulate_columns`.
        """
        return None


class ByRow(ABC):
    """Operations on one event or two partials: the form that tests, law checks and users' classes
    are written in.

    A state is a tuple and stays as it is; each primitive returns a new one. Law of all: they agree
    with the column form, byte for byte.
    """

    @abstractmethod
    def accumulate(self, state: State, event: Event) -> State:
        """The partial of the state's events and this one.

        Required. It reads of `event` the columns of `inputs` and its identity. Law: any order of
        events gives the same state.
        """

    @abstractmethod
    def combine(self, a: State, b: State) -> State:
        """The partial of the events of both, which have none in common.

        Required. Law: associative and commutative, with `empty` as identity.
        """

    @abstractmethod
    def finish(self, state: State) -> Any:
        """The value, a Python value that `pa.array` takes for `output_type`, or `Failed`.

        Required. It reads `state` and nothing else.
        """

    def finish_at(self, state: State, end_us: int) -> Any:  # noqa: ARG002
        """The value of a partial of a window that ends there. Optional, together with
        `finish_columns_at`."""
        return self.finish(state)


class Deducts(ABC):
    """The undoing of a combine, by column and by row. An aggregate that cannot undo it has
    neither."""

    @abstractmethod
    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        """Row by row, the partial of the events of `whole` that are not in `part`.

        Required of an `Invertible`. Every event of `part` must be one of `whole`; both stay as they
        are. Law: combine(deduct(w, p), p) == w, byte for byte.
        """

    @abstractmethod
    def deduct(self, whole: State, part: State) -> State:
        """The row form of `deduct_columns`. Required of an `Invertible`; the same law."""
