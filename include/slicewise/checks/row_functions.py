"""The check runs a row function on one row at a time; no batch can be in an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slicewise.features.plan.unit import StorageUnit
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.types import TIMESTAMP, arrow_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK = {"long": "bigint", "double": "double", "boolean": "boolean", "string": "string"}


def function_name(number: int) -> str:
    """The name of a unit's row function in SQL; it gives (there, value)."""
    return f"check_row_function_{number}"


@dataclass(frozen=True)
class RowByRow:
    """Call of Spark's workers per row: whether there is a value, and the value."""

    function: RowFunction

    def __call__(self, *values: Any) -> tuple[bool, Any]:
        kinds = (
            pa.int64() if kind == TIMESTAMP else arrow_type(kind) for kind in self.function.types
        )
        arrays = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
        result, there = self.function.of(dict(zip(self.function.reads, arrays, strict=True)))
        return bool(there[0]), result[0].as_py()


def register(spark: SparkSession, unit: StorageUnit) -> None:
    """Makes the unit's row functions known by the names that the view's query uses."""
    for number, (_, function) in enumerate(unit.functions):
        given = f"struct<there:boolean,value:{_SPARK[function.output]}>"
        spark.udf.register(function_name(number), RowByRow(function), given)
