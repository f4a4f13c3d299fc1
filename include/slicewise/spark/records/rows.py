"""A unit's row logic, in the JVM: which rows it takes, and the values that its aggregates read.

What a row fails by is its own affair and of one unit alone; it is named, so that it is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from slicewise.features.plan.unit import StorageUnit
from slicewise.features.rowlogic.functions.dialects import to_spark

KEPT, FILTERED, NULL_ENTITY, REFUSED_VALUE = 0, 1, 2, 3
REASONS = {FILTERED: "filtered", NULL_ENTITY: "null_entity", REFUSED_VALUE: "refused_value"}


@dataclass(frozen=True)
class UnitColumns:
    """Partitions of a unit's columns in the frame."""

    keep: str
    """Column of KEPT, FILTERED, NULL_ENTITY or REFUSED_VALUE; null where the record is bad."""
    entity: tuple[str, ...]
    inputs: Mapping[str, str]
    """Name that an aggregate reads -> column of the frame."""
    event_id: str | None = None
    """Column of the event's id, where the source says by which an event that comes again is
    known."""

    def needed(self) -> tuple[str, ...]:
        ids = () if self.event_id is None else (self.event_id,)
        return (self.keep, *self.entity, *self.inputs.values(), *ids)


def with_units(
    frame: DataFrame, units: Sequence[StorageUnit], good: str = "reason IS NULL"
) -> tuple[DataFrame, tuple[UnitColumns, ...]]:
    """Adds each unit's columns to `frame`, beside its own. `frame` is of `parse.parsed`, or of the
    archive with its columns named `c_…`. good: which rows are good records."""
    computed: dict[str, str] = {}  # text of an expression -> column: equal ones are computed once
    plans: list[tuple[StorageUnit, dict[str, str]]] = []
    for unit in units:
        names: dict[str, str] = {}
        for name, expression in unit.columns:
            text = to_spark(expression.tree, _column)
            if expression.kind == "double":  # canonical: a negative zero is zero
                text = f"CASE WHEN ({text}) = 0 THEN 0D ELSE ({text}) END"
            names[name] = computed.setdefault(text, f"x_{len(computed)}")
        plans.append((unit, names))
    wide = frame.selectExpr("*", *(f"{text} AS {column}" for text, column in computed.items()))
    placed = tuple(_placed(i, unit, names) for i, (unit, names) in enumerate(plans))
    keeps = (
        f"CASE WHEN {good} THEN {_keep(unit, names, columns)} END AS {columns.keep}"
        for (unit, names), columns in zip(plans, placed, strict=True)
    )
    return wide.selectExpr("*", *keeps), placed


def _placed(index: int, unit: StorageUnit, names: Mapping[str, str]) -> UnitColumns:
    inputs = [name for name, _ in unit.given_types]
    return UnitColumns(
        f"keep_{index}",
        tuple(names.get(name, f"c_{name}") for name, _ in unit.entity),
        {name: names.get(name, f"c_{name}") for name in inputs},
        None if unit.dedupe is None else f"c_{unit.dedupe.column}",
    )


def _keep(unit: StorageUnit, names: Mapping[str, str], columns: UnitColumns) -> str:
    cases = []
    if unit.where is not None:
        cases.append((f"({to_spark(unit.where.tree, _column)}) IS NOT TRUE", FILTERED))
    if columns.entity:
        nulls = " OR ".join(f"`{name}` IS NULL" for name in columns.entity)
        cases.append((nulls, NULL_ENTITY))
    doubles = [names[name] for name, expression in unit.columns if expression.kind == "double"]
    if doubles:
        refused = " OR ".join(f"isnan({c}) OR abs({c}) = double('Infinity')" for c in doubles)
        cases.append((refused, REFUSED_VALUE))
    whens = " ".join(f"WHEN {condition} THEN {code}Y" for condition, code in cases)
    return f"CASE {whens} ELSE {KEPT}Y END" if cases else f"{KEPT}Y"


def _column(name: str) -> str:
    return f"`c_{name}`"
