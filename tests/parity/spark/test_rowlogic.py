"""Spark gives the brute-force value of row logic on every hostile row, as DuckDB does.

For DuckDB: tests/unit/features/test_rowlogic.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from slicewise.features.rowlogic.functions.dialects import to_spark
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.features.schema.types import arrow_type
from slicewise.settings import Settings
from slicewise.spark.runtime.session import job_session
from tests.support.inputs.rowlogic_grammar import grammar
from tests.support.inputs.rowlogic_vectors import EXPRESSIONS, ROWS, SCHEMA, expected, same

# toArrow leaves its sockets to the garbage collector
AT_ONCE = 25


def arrow(kind: str) -> pa.DataType:
    return pa.int64() if kind == "timestamp_us" else arrow_type(kind)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFrame]:
    folder: Path = tmp_path_factory.mktemp("state")
    session = job_session(
        Settings.load({"SLICEWISE_STATE": str(folder)}), "rowlogic-parity", cores=1
    )
    columns = {
        name: pa.array([row[name] for row in ROWS], arrow(kind)) for name, kind in SCHEMA.items()
    }
    table = pa.table({**columns, "row": pa.array(range(len(ROWS)))})
    frame = session.createDataFrame(table).repartition(1).sortWithinPartitions("row").cache()
    assert frame.count() == len(ROWS)
    yield frame
    session.stop()


def check(rows: DataFrame, texts: Sequence[str]) -> None:
    parsed = [parse_expression(text, SCHEMA, where="here") for text in texts]
    table = rows.selectExpr(
        *(f"{to_spark(expression.tree)} AS v{i}" for i, expression in enumerate(parsed))
    ).toArrow()
    for i, (text, expression) in enumerate(zip(texts, parsed, strict=True)):
        column = table[f"v{i}"]
        assert column.type == arrow(expression.kind), f"{text} is {expression.kind}"
        for row, one, other in zip(ROWS, column.to_pylist(), expected(text), strict=True):
            assert same(one, other), f"{text} on {row}: Spark {one!r}, expected {other!r}"


@pytest.mark.parametrize("first", range(0, len(EXPRESSIONS), AT_ONCE))
def test_spark_gives_the_brute_force_values(rows: DataFrame, first: int) -> None:
    check(rows, EXPRESSIONS[first : first + AT_ONCE])


@settings(max_examples=4, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(st.lists(grammar(), min_size=15, max_size=AT_ONCE, unique=True))
def test_spark_gives_the_brute_force_values_of_any_expressions(
    rows: DataFrame, texts: list[str]
) -> None:
    check(rows, texts)


def test_spark_gives_the_same_values_where_nothing_is_compiled(rows: DataFrame) -> None:
    session = rows.sparkSession
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    try:
        check(rows, EXPRESSIONS[::3])
    finally:
        session.conf.unset("spark.sql.codegen.wholeStage")
        session.conf.unset("spark.sql.codegen.factoryMode")
