"""A condition chooses which events an aggregate is given; what is stored and finished is the
aggregate's own."""

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

from slicewise.aggregates.contract import Aggregate, Invertible
from slicewise.aggregates.event_forms import ScalarOf
from slicewise.aggregates.exact.counting import Count
from slicewise.aggregates.exact.sums import Sum
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.operations import Ends, Finished
from slicewise.aggregates.ordering.ranked import ArgMax
from slicewise.aggregates.ranges import ChosenForm, ChosenRows, RangeForm
from slicewise.aggregates.registry import from_spec, register
from slicewise.aggregates.scalar import ScalarForm
from slicewise.aggregates.stored_form import State
from slicewise.errors import DefinitionError


def _examples(cls: type[Any]) -> Sequence[Aggregate]:  # noqa: ARG001
    types = {"x": pa.float64(), "s": pa.string(), "w": pa.bool_()}
    inner = [Count(), Sum("x"), ArgMax("s", "x")]
    return [only(aggregate, "w", "w").bind(types) for aggregate in inner]


@register(_examples)
@dataclass(frozen=True)
class Where(Aggregate):
    """An aggregate of the events for which a condition is true; neither false nor null counts.

    aggregate: any. where: row logic, as its author wrote it. column: the boolean column of the
    condition's values, which the planner makes and names; equal conditions have one.
    """

    kind = "where"
    aggregate: Aggregate
    where: str
    column: str | None = None

    def __post_init__(self) -> None:
        check_inner(self.aggregate, "where")
        if not isinstance(self.where, str) or not self.where.strip():
            raise DefinitionError(
                f"where is {self.where!r}",
                where=self.aggregate.describe(),
                expected='a condition on a row as text, such as where="stars >= 4"',
                next_step="write the condition in quotes, or leave where= out",
            )

    @property
    def condition(self) -> str:
        """The column of the condition's values."""
        if self.column is None:
            raise DefinitionError(
                f"the condition of {self.describe()} has no column yet",
                expected="an aggregate of a planned view",
                next_step="declare it in a feature of a view",
            )
        return self.column

    def answers(self, length_us: int) -> str | None:
        return self.aggregate.answers(length_us)

    def resolve(self, named: Callable[[str], str]) -> Aggregate:
        return replace(self, aggregate=self.aggregate.resolve(named), column=named(self.where))

    @property
    def core(self) -> Aggregate:
        return self.aggregate.core

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.aggregate.inputs, self.condition)))

    def accepts(self, column: str, kind: pa.DataType) -> str | None:
        if column == self.condition and not pa.types.is_boolean(kind):
            return "a boolean condition"
        return self.aggregate.accepts(column, kind) if column in self.aggregate.inputs else None

    def bind(self, types: Mapping[str, pa.DataType]) -> Aggregate:
        bound = super().bind(types)
        assert isinstance(bound, Where)
        return replace(bound, aggregate=self.aggregate.bind(types))

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "aggregate": self.aggregate.spec(),
            "where": self.where,
            "column": self.column,
        }

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> Aggregate:
        return only(from_spec(parameters["aggregate"]), parameters["where"], parameters["column"])

    def meaning(self) -> dict[str, Any]:
        return {"kind": self.kind, "aggregate": self.aggregate.meaning(), "column": self.condition}

    def describe(self) -> str:
        inner = self.aggregate.describe()[:-1]
        return f"{inner}{'' if inner.endswith('(') else ', '}where={self.where!r})"

    def stored(self) -> Mapping[str, Any]:
        return {
            "form": "where",
            "column": self.condition,
            "of": json.loads(self.aggregate.partial_id()),
        }

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return self.aggregate.fields

    def longest(self, events: int) -> Mapping[str, int]:
        return self.aggregate.longest(events)

    @property
    def output_type(self) -> pa.DataType:
        return self.aggregate.output_type

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        inner, chosen = self.aggregate, np.flatnonzero(self._true(rows))
        if len(chosen) < len(rows):
            rows, groups = rows.take(chosen, inner.inputs), groups[chosen]
        return inner.accumulate_columns(rows, groups, n_groups)

    def _true(self, rows: Rows) -> NDArray[np.bool_]:
        true = pc.fill_null(rows.columns[self.condition], False)
        return np.asarray(true.to_numpy(zero_copy_only=False))

    def over_ranges(self, rows: Rows) -> RangeForm | None:
        true = self._true(rows)
        chosen = rows.take(np.flatnonzero(true), self.aggregate.inputs)
        form = self.aggregate.over_ranges(chosen)
        return None if form is None else ChosenForm(ChosenRows(true), form)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        return self.aggregate.combine_columns(partials, groups, n_groups)

    def finish_columns(self, partials: Columns) -> Finished:
        return self.aggregate.finish_columns(partials)

    def finish_columns_at(self, partials: Columns, ends: Ends) -> Finished:
        return self.aggregate.finish_columns_at(partials, ends)

    @property
    def scalar(self) -> ScalarForm | None:
        return self.aggregate.scalar

    @cached_property
    def scalar_of(self) -> ScalarOf | None:
        inner, condition = self.aggregate.scalar_of, self.condition
        return None if inner is None else lambda events: inner(events.only(condition))

    def accumulate(self, state: State, event: Event) -> State:
        return self.aggregate.accumulate(state, event) if event.columns[self.condition] else state

    def combine(self, a: State, b: State) -> State:
        return self.aggregate.combine(a, b)

    def finish(self, state: State) -> Any:
        return self.aggregate.finish(state)

    def finish_at(self, state: State, end_us: int) -> Any:
        return self.aggregate.finish_at(state, end_us)


@dataclass(frozen=True)
class InvertibleWhere(Where, Invertible):
    """One whose inner combine can be undone."""

    @property
    def _inner(self) -> Invertible:
        assert isinstance(self.aggregate, Invertible)
        return self.aggregate

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        return self._inner.deduct_columns(whole, part)

    def deduct(self, whole: State, part: State) -> State:
        return self._inner.deduct(whole, part)


def only(aggregate: Aggregate, where: str, column: str | None = None) -> Where:
    """The aggregate of the events for which `where` is true."""
    kind = InvertibleWhere if isinstance(aggregate, Invertible) else Where
    return kind(aggregate, where, column)


def check_inner(aggregate: object, where: str) -> None:
    """Raises DefinitionError for what is no aggregate."""
    if not isinstance(aggregate, Aggregate):
        raise DefinitionError(
            f"{aggregate!r} is no aggregate",
            where=where,
            expected='an aggregate such as sw.count() or sw.sum("column")',
            next_step="give an aggregate's call, with its parentheses",
        )
