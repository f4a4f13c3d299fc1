"""A training set is built by `slicewise dataset build`, behind the gate of the check."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from slicewise.lifecycle.jobs import Run, dataset_arguments
from slicewise.lifecycle.lineage.steps import Scope
from slicewise_airflow.assets import TRAINING_SETS, describe
from slicewise_airflow.check import require_gate
from slicewise_airflow.commands import run_command
from slicewise_airflow.lineage import facets_of
from slicewise_airflow.spark import run_of


class TrainingSetJob(BaseOperator):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """Builds a training set with the run's params; returns the command's report (XCom)."""

    def execute(self, context: Any) -> dict[str, object]:
        run = run_of(context)
        require_gate(run)
        report = run_command("dataset", "build", *dataset_arguments(run))
        describe(context, TRAINING_SETS, out=run.params["out"], rows=report.get("rows"))
        return report

    def get_openlineage_facets_on_complete(self, instance: Any) -> Any:
        """Data sets of the run, for Airflow's OpenLineage provider."""
        return facets_of("dataset", scope_of(run_of(instance.get_template_context())))


def scope_of(run: Run) -> Scope:
    """Scope of a run's training set, by its params."""
    features = str(run.params["features"]).split(",")
    return Scope(
        features=tuple(one.strip() for one in features if one.strip()),
        spine=str(run.params["spine"]),
        out=str(run.params["out"]),
    )
