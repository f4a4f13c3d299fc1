"""The check runs a row function on one row at a time; no batch can be in an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from slicewise.checks.recompute import queries
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.types import TIMESTAMP, arrow_type

_SPARK = {"long": "bigint", "double": "double", "boolean": "boolean", "string": "string"}


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
    """Makes the unit's row functions known by the names that `queries.viewed` uses."""
    for number, (_, function) in enumerate(unit.functions):
        given = f"struct<there:boolean,value:{_SPARK[function.output]}>"
        spark.udf.register(queries.function_name(number), RowByRow(function), given)
