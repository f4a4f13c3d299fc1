"""The check is green if and only if every expectation holds on the joined table; nothing compared
is red."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd

from slicewise.checks.model import Outcome, Verdict

SUITE = "online_equals_offline"
COLUMNS = (
    "view", "feature", "entity", "mode", "online", "offline", "mismatched", "missing", "extra",
    "per_million", "bounds_off",
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """One expectation and what was seen."""

    name: str
    about: str
    met: bool
    observed: str


@dataclass(frozen=True)
class Gate:
    """The suite's result on one joined table."""

    green: bool
    expectations: tuple[Expected, ...]


def joined(outcome: Outcome) -> pd.DataFrame:
    """The joined table: one row per compared value, both sides as hexadecimal canonical bytes.

    Bytes and never null, so that an expectation that skips nulls cannot skip a difference.
    """
    share = outcome.per_million()
    rows = [
        (
            row.view, row.feature, row.entity, row.mode, row.online.hex(), row.offline.hex(),
            int(row.verdict is Verdict.MISMATCH), int(row.verdict is Verdict.MISSING),
            int(row.verdict is Verdict.EXTRA), share, int(row.start_us > row.end_us),
        )
        for row in outcome.compared
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


@contextmanager
def imported() -> Iterator[None]:
    """Imports meanwhile what `judge` needs: seconds of one core, in which the session's JVM works
    on its own."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_import)  # where it fails, `judge` says so
        yield


def _import() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    return great_expectations


def judge(outcome: Outcome) -> Gate:
    """Run the suite. An expectation that raises is not met."""
    gx = _import()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    data = context.data_sources.add_pandas("check").add_dataframe_asset("joined")
    batch = data.add_batch_definition_whole_dataframe("run")
    suite = context.suites.add(gx.ExpectationSuite(name=SUITE, expectations=_expectations(outcome)))
    validation = gx.ValidationDefinition(name=SUITE, data=batch, suite=suite)
    result = context.validation_definitions.add(validation).run(
        batch_parameters={"dataframe": joined(outcome)}
    )
    met = tuple(_expected(check) for check in result.results)
    plain = [plain_sum for plain_sum in outcome.plain_sums if not plain_sum.agrees]
    about = "plain SQL sums lie within their rounding of the exact ones"
    seen = f"{len(plain)} of {len(outcome.plain_sums)} outside"
    met = (*met, Expected("plain_sums_agree", about, not plain, seen))
    return Gate(bool(result.success) and all(expectation.met for expectation in met), met)


def _expectations(outcome: Outcome) -> list[Any]:
    from great_expectations import expectations as expect

    views = sorted(outcome.expected_views)
    none = {"min_value": 0, "max_value": 0}
    return [
        expect.ExpectTableRowCountToBeBetween(
            min_value=1, meta={"about": "something was compared"}
        ),
        expect.ExpectTableColumnsToMatchSet(
            column_set=list(COLUMNS), meta={"about": "the joined table has its columns"}
        ),
        expect.ExpectColumnDistinctValuesToContainSet(
            column="view", value_set=views or ["a view"], meta={"about": "every view was compared"}
        ),
        expect.ExpectColumnPairValuesToBeEqual(
            column_A="online", column_B="offline", meta={"about": "both sides are the same bytes"}
        ),
        expect.ExpectColumnMaxToBeBetween(
            column="per_million", **none, meta={"about": "mismatches per million are 0"}
        ),
        expect.ExpectColumnSumToBeBetween(
            column="mismatched", **none, meta={"about": "no value differs"}
        ),
        expect.ExpectColumnSumToBeBetween(
            column="missing", **none, meta={"about": "no value is missing online"}
        ),
        expect.ExpectColumnSumToBeBetween(
            column="extra", **none, meta={"about": "no value is online alone"}
        ),
        expect.ExpectColumnSumToBeBetween(
            column="bounds_off", **none, meta={"about": "no window ends before it starts"}
        ),
    ]


def _expected(result: Any) -> Expected:
    config = result.expectation_config
    seen = result.result or {}
    if result.exception_info and result.exception_info.get("raised_exception"):
        observed = f"could not be computed: {result.exception_info.get('exception_message')}"
    elif "observed_value" in seen and seen["observed_value"] is not None:
        observed = str(seen["observed_value"])
    elif "partial_missing_list" in seen:
        observed = f"missing: {', '.join(map(str, seen['partial_missing_list']))}"
    else:
        observed = f"{seen.get('unexpected_count', 0)} unexpected of {seen.get('element_count', 0)}"
    about = (config.meta or {}).get("about", "")
    name = config.type.removeprefix("expect_")
    column = config.kwargs.get("column")
    return Expected(f"{name}({column})" if column else name, about, bool(result.success), observed)
