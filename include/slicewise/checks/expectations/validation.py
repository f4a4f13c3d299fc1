"""Great Expectations judges a batch where it lies: Spark computes each figure, and no row but the
examples of what is unexpected comes to the driver."""

from __future__ import annotations

import html
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slicewise.checks.expectations.outcome import Judged
from slicewise.checks.expectations.suites import Suite, Wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN, _LONGEST = 5, 300
_NUMBER = "slicewise_number"
MODULES = ("great_expectations", "great_expectations.validator.v1_validator")
"""Modules that take seconds to import."""


@dataclass
class Validation:
    """Judges batches of one run, and keeps the results for data docs."""

    run: str
    started_us: int
    results: Path
    """Folder of the results that data docs are built from."""
    context: Any = field(default=None)
    resources: list[Any] = field(default_factory=list)
    """Identifiers of the suites and results of this run."""

    def __post_init__(self) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
        import great_expectations as gx
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
            ProgressBarsConfig,
        )

        # of an expectation that raises, its result says why
        logging.getLogger("great_expectations").setLevel(logging.CRITICAL)
        defaults = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
        defaults.stores[defaults.validation_results_store_name] = {
            "class_name": "ValidationResultsStore",
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(self.results),
            },
        }
        self.context = gx.get_context(
            mode="ephemeral", project_config=DataContextConfig(store_backend_defaults=defaults)
        )
        self.context.variables.progress_bars = ProgressBarsConfig(globally=False)

    def judge(self, suite: Suite, frame: DataFrame) -> tuple[Judged, ...]:
        """Judges each expectation of the suite on the frame. One that raises is not met."""
        import great_expectations as gx
        from great_expectations.validator.v1_validator import Validator

        made, broken = self._made(suite.wanted)
        data = self.context.data_sources.add_spark(suite.name, persist=False)
        batch = data.add_dataframe_asset(suite.of).add_batch_definition_whole_dataframe("hour")
        whole = self.context.suites.add(
            gx.ExpectationSuite(name=suite.name, expectations=list(made.values()))
        )
        validator = Validator(
            batch_definition=batch,
            batch_parameters={"dataframe": frame},
            result_format="SUMMARY",
        )
        results = validator.validate_expectation_suite(whole)
        judged = dict(broken)
        for result in results.results:
            result.success = bool(result.success)  # of quantiles it is numpy's, which no JSON has
            number = int(result.expectation_config.meta[_NUMBER])
            judged[number] = _judged(suite.wanted[number], result)
            # the pages show values of events as they stand
            result.result = _escaped(result.result)
        self._keep(suite.name, results, validator.active_batch_id)
        return tuple(judged[number] for number in range(len(suite.wanted)))

    def _made(self, wanted: Sequence[Wanted]) -> tuple[dict[int, Any], dict[int, Judged]]:
        """Great Expectations' objects by position, and those that it does not take."""
        from great_expectations.expectations.expectation_configuration import (
            ExpectationConfiguration,
        )

        made: dict[int, Any] = {}
        broken: dict[int, Judged] = {}
        for number, one in enumerate(wanted):
            configuration = ExpectationConfiguration(
                type=one.type,
                kwargs=dict(one.kwargs),
                severity=one.severity,
                meta={_NUMBER: number},
                notes=one.about,
            )
            try:
                made[number] = configuration.to_domain_obj()
            except Exception as error:  # noqa: BLE001
                text = " ".join(str(error).split())
                broken[number] = Judged(one, False, f"refused: {text}"[:_LONGEST], raised=True)
        return made, broken

    def _keep(self, name: str, results: Any, batch: str) -> None:
        """Keeps the results where the data docs are built from."""
        from great_expectations.core.run_identifier import RunIdentifier
        from great_expectations.data_context.types.resource_identifiers import (
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        run = RunIdentifier(
            run_name=self.run, run_time=_EPOCH + timedelta(microseconds=self.started_us)
        )
        results.meta["run_id"] = run
        results.meta["validation_time"] = run.run_time
        suite = ExpectationSuiteIdentifier(name=name)
        kept = ValidationResultIdentifier(
            batch_identifier=batch, expectation_suite_identifier=suite, run_id=run
        )
        self.context.validation_results_store.store_validation_results(results, kept, suite)
        self.resources += [suite, kept]


def _judged(wanted: Wanted, result: Any) -> Judged:
    raised = _raised(result.exception_info or {})
    if raised:
        text = " ".join(raised.split())
        return Judged(wanted, False, f"could not be computed: {text}"[:_LONGEST], raised=True)
    return Judged(wanted, result.success, _observed(result.result or {})[:_LONGEST])


def _escaped(value: Any) -> Any:
    """The same with texts that HTML shows, and does not read."""
    if isinstance(value, str):
        return html.escape(value)
    if isinstance(value, Mapping):
        return {name: _escaped(item) for name, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value


def _raised(info: Mapping[str, Any]) -> str:
    """The first message of what was raised: of the expectation, or of one of its figures."""
    parts = [info, *(part for part in info.values() if isinstance(part, Mapping))]
    return next(
        (str(part.get("exception_message")) for part in parts if part.get("raised_exception")), ""
    )


def _observed(seen: Mapping[str, Any]) -> str:
    if seen.get("unexpected_count"):
        count, of = seen["unexpected_count"], seen.get("element_count", 0)
        examples = list(dict.fromkeys(map(str, seen.get("partial_unexpected_list") or ())))
        shown = ", ".join(examples[:_SHOWN]) if set(examples) - {"None"} else ""
        return f"{count} unexpected of {of}" + (f", as {shown}" if shown else "")
    if seen.get("observed_value") is not None:
        value = seen["observed_value"]
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"none unexpected of {seen.get('element_count', 0)}"
