"""A fold sees all events of its window once each, in total order, or says that they were too many.

Stored is the sorted list; the fold itself runs when a value is finished, so that no function of a
user's runs while events are taken in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.custom.functions import check_text, compiled
from slicewise.aggregates.custom.raised import NULL, report_raised
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import IDENTITY, Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import Int64, Ragged
from slicewise.aggregates.kernel.ranking import choose, identity_order, rows_order
from slicewise.aggregates.kernel.values import ORDERED, ValueType, flat, is_ordered
from slicewise.aggregates.limits import check_whole
from slicewise.aggregates.operations import Failed, Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.stored_form import State
from slicewise.errors import DefinitionError

MOST_EVENTS = 10_000
REFUSE, NEWEST = "refuse", "newest"
TOO_MANY = "too_many_events"
"""Error code: there were more events than the stated capacity."""
FUNCTION = "function_error"
"""Error code: a function raised, or gave what is not of the declared type."""
OUTPUTS: Mapping[str, pa.DataType] = {
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
}
_RISES = """\
def nothing():
    return (None, 0)


def rise(state, event):
    last, n = state
    if event["x"] is None:
        return state
    return (event["x"], n + 1 if last is not None and event["x"] > last else n)


def count(state):
    return state[1]
"""


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    made = [
        (("x",), 100, REFUSE, {"x": pa.float64()}),
        (("x",), 4, REFUSE, {"x": pa.int64()}),
        (("x", "s"), 3, NEWEST, {"x": pa.decimal128(12, 3), "s": pa.string()}),
    ]
    return [
        cls(_RISES, "nothing", "rise", "count", columns, "long", cap, policy).bind(types)
        for columns, cap, policy, types in made
    ]


@register(_examples)
@dataclass(frozen=True)
class Ordered(Aggregate):
    """finish(step(… step(init(), first event) …, last event)), events in the total order; null
    without any.

    An event is a dict of the columns, nulls included; every event counts. Beyond `cap` events the
    answer is null with `too_many_events` (policy refuse), or of the `cap` latest (newest). Where a
    function raises, or gives another type than `output`, it is null with `function_error`.
    Partial: `more` (1 beyond the capacity, with all lists empty), `identity`, and per column its
    values and which are not null; ascending by identity. What is stored does not depend on the
    functions.
    """

    kind = "ordered"
    source: str
    init: str
    step: str
    final: str
    columns: tuple[str, ...]
    output: str
    cap: int = 1_000
    policy: str = REFUSE

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        where = self.describe()
        if not isinstance(self.output, str) or self.output not in OUTPUTS:
            raise DefinitionError(
                f"output is {self.output!r}",
                where=where,
                expected="one of " + ", ".join(OUTPUTS),
                next_step="write the type that finish gives",
            )
        if self.policy not in (REFUSE, NEWEST):
            raise DefinitionError(
                f"policy is {self.policy!r}",
                where=where,
                expected=f"{REFUSE} or {NEWEST}",
                next_step="leave policy= out for " + repr(REFUSE),
            )
        check_whole("cap", self.cap, 1, MOST_EVENTS, where)
        if not self.columns or any(self.columns.count(column) > 1 for column in self.columns):
            raise DefinitionError(
                f"columns are {list(self.columns)}",
                where=where,
                expected="one or more, each once",
                next_step="name what the functions read of an event",
            )
        check_text(self.source, {self.init: 0, self.step: 2, self.final: 1})

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "columns": list(self.columns)}

    def describe(self) -> str:
        columns = ", ".join(map(repr, self.columns))
        return (
            f"{self.kind}({self.init}, {self.step}, {self.final}, columns=[{columns}], "
            f"cap={self.cap!r})"
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.columns

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) else ORDERED

    def stored(self) -> Mapping[str, Any]:
        return {
            "form": "events",
            "reads": list(self.columns),
            "cap": self.cap,
            "policy": self.policy,
        }

    @cached_property
    def values(self) -> tuple[ValueType, ...]:
        """The stored type of each column."""
        return tuple(ValueType(self.type_of(column)) for column in self.columns)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        fields: list[Field] = [Fixed("more", "|u1"), Items("identity", IDENTITY)]
        for i, value in enumerate(self.values):
            fields += [value.field(f"value{i}"), Items(f"valid{i}", "|u1")]
        return tuple(fields)

    @property
    def most_items(self) -> int:
        return self.cap

    @property
    def output_type(self) -> pa.DataType:
        return OUTPUTS[self.output]

    # ---- whole columns

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        chosen, offsets, more = self._choose(
            rows.time, rows_order(rows), groups, n_groups, np.zeros(n_groups, bool)
        )
        values: dict[str, Values] = {
            "more": more,
            "identity": Ragged(offsets, rows.identities(chosen)),
        }
        every = np.arange(len(chosen))
        for i, (name, value) in enumerate(zip(self.columns, self.values, strict=True)):
            array = rows.columns[name].take(pa.array(chosen))
            values[f"value{i}"] = value.listed(value.store(array), every, offsets)
            valid = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
            values[f"valid{i}"] = Ragged(offsets, valid)
        return Columns(n_groups, values)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        partials.abreast(*(field.name for field in self.fields[1:]))
        identity = partials.items("identity")
        beyond = np.zeros(n_groups, np.bool_)
        beyond[groups[partials.fixed("more") != 0]] = True
        time, of = identity.values["time"].astype(np.uint64), groups[identity.row_numbers()]
        chosen, offsets, more = self._choose(
            time, identity_order(identity.values), of, n_groups, beyond
        )
        values: dict[str, Values] = {
            "more": more,
            "identity": Ragged(offsets, identity.values[chosen]),
        }
        for i, value in enumerate(self.values):
            values[f"value{i}"] = value.listed(flat(partials.lists(f"value{i}")), chosen, offsets)
            values[f"valid{i}"] = Ragged(offsets, partials.items(f"valid{i}").values[chosen])
        return Columns(n_groups, values)

    def _choose(
        self, time: Any, ties: Any, groups: Int64, n_groups: int, beyond: Any
    ) -> tuple[Int64, Int64, Any]:
        """Chooses the events that are kept. Gives also the groups' offsets among them, and the
        groups that have too many."""
        if self.policy == NEWEST:
            return *choose(time, ties, groups, n_groups, self.cap, newest=True), np.zeros(
                n_groups, np.uint8
            )
        beyond = beyond | (np.bincount(groups, minlength=n_groups) > self.cap)
        kept = np.flatnonzero(~beyond[groups])
        chosen, offsets = choose(
            time[kept], lambda i: ties(kept[i]), groups[kept], n_groups, self.cap
        )
        return kept[chosen], offsets, beyond.astype(np.uint8)

    def finish_columns(self, partials: Columns) -> Finished:
        partials.abreast(*(field.name for field in self.fields[1:]))
        answers = [self.finish(state) for state in self.from_columns(partials)]
        errors = {row: value.code for row, value in enumerate(answers) if isinstance(value, Failed)}
        kept = [None if isinstance(value, Failed) else value for value in answers]
        return Finished(pa.array(kept, self.output_type), errors)

    # ---- rows

    def accumulate(self, state: State, event: Event) -> State:
        entry: list[tuple[Any, ...]] = [(event.identity(),)]
        for name, value in zip(self.columns, self.values, strict=True):
            given = event.columns[name]
            nothing: Any = b"" if value.dtype is None else 0.0 if value.dtype == "<f8" else 0
            entry += [
                (nothing if given is None else value.store_one(given),),
                (int(given is not None),),
            ]
        return self.combine(state, (0, *entry))

    def combine(self, a: State, b: State) -> State:
        entries = sorted(
            [*zip(*a[1:], strict=True), *zip(*b[1:], strict=True)], key=lambda entry: entry[0]
        )
        if self.policy == NEWEST:
            entries = entries[-self.cap :]
        elif a[0] or b[0] or len(entries) > self.cap:
            return (1, *self.empty()[1:])
        return (0, *zip(*entries, strict=True)) if entries else self.empty()

    def finish(self, state: State) -> Any:
        if state[0]:
            return Failed(TOO_MANY)
        if not state[1]:
            return None
        columns = [
            [
                value.load_one(v) if valid else None
                for v, valid in zip(state[2 + 2 * i], state[3 + 2 * i], strict=True)
            ]
            for i, value in enumerate(self.values)
        ]
        init, step, final = self._functions
        try:
            running = init()
            for values in zip(*columns, strict=True):
                running = step(running, dict(zip(self.columns, values, strict=True)))
            given = final(running)
            answer = self._given(given)
        except Exception as error:  # noqa: BLE001
            report_raised(self.source, final, error, NULL)
            return Failed(FUNCTION)
        if isinstance(answer, Failed):
            report_raised(
                self.source, final, f"gave {given!r:.80}, and output is {self.output}", NULL
            )
        return answer

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], ...]:
        made = compiled(self.source)
        return made[self.init], made[self.step], made[self.final]

    def _given(self, value: Any) -> Any:
        """The value in its one form, if it is of the declared type."""
        if value is None:
            return None
        if (
            self.output == "double"
            and isinstance(value, int | float)
            and not isinstance(value, bool)
        ):
            return math.nan if value != value else float(value) + 0.0
        if self.output == "long" and type(value) is int and -(2**63) <= value < 2**63:
            return value
        if self.output == "boolean" and type(value) is bool:
            return value
        if self.output == "string" and type(value) is str:
            value.encode()
            return value
        return Failed(FUNCTION)
