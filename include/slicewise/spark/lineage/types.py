"""Types of features follow from the planned definitions, which a deployment's JSON does not have.

Needs the aggregates: Airflow's environment has none of them, and its tasks' events no types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slicewise.errors import SlicewiseError
from slicewise.log import warning


def types_of(manifest: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """View and feature column -> its type; none where the deployment cannot be planned here."""
    from slicewise.aggregates.sketches.membership import answer_type
    from slicewise.features.plan.deployment import Deployment
    from slicewise.features.schema.types import type_name

    try:
        deployment = Deployment.from_json(json.dumps(manifest))
    except (SlicewiseError, KeyError, TypeError, ValueError) as error:
        warning("lineage_without_types", error=type(error).__name__)
        return {}
    return {
        (unit.view, feature.column): type_name(answer_type(feature.aggregate))
        for unit in deployment.units
        for feature in unit.features
    }
