"""Tasks say which data sets they read and wrote, where Airflow's OpenLineage provider is on."""

from __future__ import annotations

from typing import Any

from slicewise.lifecycle.lineage.datasets import Namespaces
from slicewise.lifecycle.lineage.steps import Scope, steps_of, united
from slicewise.settings import Settings
from slicewise.spark.lineage.report import PARENT, ROOT


def facets_of(job: str, scope: Scope | None = None) -> Any:
    """Lineage of a task as the provider takes it: inputs and outputs of the job that it runs, by
    what is deployed now."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    from slicewise.spark.lineage.facets import input_of, output_of
    from slicewise.stores.online.redis.status import read_status

    settings = Settings.load()
    manifest = read_status(settings.redis_url).manifest
    inputs, outputs = united(steps_of(job, manifest, Namespaces.of(settings), scope))
    return OperatorLineage(
        inputs=[input_of(one) for one in inputs], outputs=[output_of(one) for one in outputs]
    )


def parent_variables(context: Any) -> dict[str, str]:
    """Variables by which a job names its task as the run that began it; none where the provider is
    off."""
    from airflow.providers.openlineage.conf import is_disabled

    if is_disabled():
        return {}
    from airflow.providers.openlineage.plugins.macros import (
        lineage_parent_id,
        lineage_root_parent_id,
    )

    instance = context["ti"]
    return {PARENT: lineage_parent_id(instance), ROOT: lineage_root_parent_id(instance)}
