"""Data sets of the lineage become OpenLineage's, with schemas and the columns that columns are made
of. Needs no Spark: Airflow's operators use it too."""

from __future__ import annotations

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    parent_run,
    schema_dataset,
)

from slicewise.lifecycle.lineage.datasets import Dataset, Origin

DIRECT, INDIRECT = "DIRECT", "INDIRECT"


def input_of(dataset: Dataset) -> InputDataset:
    """Input of a job, with its schema."""
    return InputDataset(dataset.namespace, dataset.name, facets=_schema(dataset))


def output_of(dataset: Dataset) -> OutputDataset:
    """Output of a job, with its schema and its columns' origins."""
    facets = _schema(dataset)
    fields = {
        column.name: column_lineage_dataset.Fields([_input_field(one) for one in column.origins])
        for column in dataset.columns
        if column.origins
    }
    if fields:
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(fields)
    return OutputDataset(dataset.namespace, dataset.name, facets=facets)


def parent_of(parent: str, root: str = "") -> parent_run.ParentRunFacet:
    """The run that began another. parent, root: "namespace/job/run", as Airflow's provider writes
    them."""
    namespace, job, run = parent.rsplit("/", 2)
    top = None
    if root:
        of_root, root_job, root_run = root.rsplit("/", 2)
        top = parent_run.Root(
            run=parent_run.RootRun(root_run), job=parent_run.RootJob(of_root, root_job)
        )
    return parent_run.ParentRunFacet(
        run=parent_run.Run(run), job=parent_run.Job(namespace, job), root=top
    )


def _schema(dataset: Dataset) -> dict[str, DatasetFacet]:
    if not dataset.columns:
        return {}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(column.name, column.kind)
        for column in dataset.columns
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields)}


def _input_field(origin: Origin) -> column_lineage_dataset.InputField:
    # an event's value goes into an aggregate, or decides whether the event does
    transformation = (
        column_lineage_dataset.Transformation(DIRECT, "AGGREGATION")
        if origin.direct
        else column_lineage_dataset.Transformation(INDIRECT, "FILTER")
    )
    return column_lineage_dataset.InputField(
        origin.namespace, origin.dataset, origin.column, [transformation]
    )
