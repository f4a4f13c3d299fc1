"""The platform's own source, view and feature, by which it sees how fresh answers are: nothing of
anybody's is touched.

They are a project beside those of users: what stands of theirs, and what they are shown, is the
same with it and without it. See docs/adr/0052.
"""

from __future__ import annotations

from functools import cache

from slicewise.aggregates import count
from slicewise.features.declare.definitions import Feature, FeatureView, KafkaSource
from slicewise.features.declare.project import Project
from slicewise.features.own import PROJECT, REF, SOURCE, TOPIC, VIEW
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.projects import joined


@cache
def deployment() -> Deployment:
    """The deployment of the probes: a view with an entity for every probe, whose one event it
    counts."""
    source = KafkaSource(
        SOURCE,
        topic=TOPIC,
        schema={"probe": "string"},
        timestamp="kafka",
        required=["probe"],
        max_lateness="1m",
    )
    feature, _, window = REF.partition(":")[2].partition("_")
    seen = Feature(feature, count(), windows=[window])
    return plan(
        Project.of(PROJECT, [FeatureView(VIEW, source=source, entity=["probe"], features=[seen])])
    )


def whole(planned: Deployment, deployed: Deployment | None, *, probes: bool) -> Deployment:
    """The deployment after a project is applied: it, the other projects' and, where they are
    wanted, the probes.

    Raises DefinitionError as `joined` does."""
    together = joined(planned, None if deployed is None else deployed.declared)
    return joined(deployment(), together) if probes else together
