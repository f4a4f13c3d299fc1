"""A model's plan says whose requests it answers and by which features; all of it follows from the
deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import xxhash

from slicewise.aggregates.sketches.membership import answer_type, membership_of
from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment, base_of
from slicewise.models.declared import DeclaredModel
from slicewise.serving.answering.answer import LOG_ALL, is_within


@dataclass(frozen=True)
class Plan:
    """Way of a model through a request log.

    topic: of the log. requests: base name of the feature set whose requests it answers. kinds:
    features in the order of the model's inputs, with their types. defaults: in place of null, of
    features that are not in the answers. columns: of an entity, by which the features are read.
    predictions: topic of the predictions.
    """

    model: DeclaredModel
    topic: str
    requests: str
    kinds: Mapping[str, pa.DataType]
    defaults: Mapping[str, Any]
    columns: frozenset[str]
    predictions: str

    @property
    def below(self) -> int:
        """Hashes of entities that are answered lie below."""
        return int(self.model.shadow * LOG_ALL)

    def takes(self, key: bytes) -> bool:
        """Tells whether requests of the entity of a logged event's key are answered."""
        return is_within(key, self.below)


def plan_of(model: DeclaredModel, deployment: Deployment) -> Plan:
    """The plan of a model. Raises BadRequest and UnknownName."""
    logging = {base_of(one.name): one.log for one in deployment.feature_sets if one.log is not None}
    name = _requests_of(model, list(logging))
    source = logging[name]
    assert source is not None
    takers = [one.topic for one in deployment.sources if one.log_kind == "predictions"]
    if len(takers) != 1:
        raise BadRequest(
            f"{len(takers)} sources take predictions",
            where=f"[models.{model.name}] shadow",
            expected="one source made by sw.prediction_log, and a view over it",
            next_step="declare it in the project's definitions, and deploy them",
        )
    chosen = deployment.feature_set(model.features) if isinstance(model.features, str) else None
    refs = model.features if chosen is None else chosen.features
    kinds, columns = dict[str, pa.DataType](), set[str]()
    for ref in refs:
        unit, feature = deployment.resolve(ref)
        kinds[ref] = answer_type(feature.aggregate)
        columns |= {column for column, _ in unit.entity}
        membership = membership_of(feature.aggregate)
        if membership is not None:
            columns.add(membership.question)
    defaults = {} if chosen is None else dict(chosen.defaults)
    topic = deployment.topic_of(source)
    return Plan(model, topic, name, kinds, defaults, frozenset(columns), takers[0])


def _requests_of(model: DeclaredModel, logging: list[str]) -> str:
    """Base name of the feature set whose requests a model answers."""
    named = model.requests or (model.features if isinstance(model.features, str) else "")
    if base_of(named) in logging:
        return base_of(named)
    if len(logging) != 1 or model.requests:
        raise BadRequest(
            f"it is not clear whose requests model {model.name!r} is to answer",
            where=f"[models.{model.name}] requests",
            expected="one of " + ", ".join(logging) if logging else "a feature set with log=",
            next_step="name the feature set" if logging else "declare log= of one, and deploy it",
        )
    return logging[0]


def prediction_id(request_id: str, entity: str, logged_us: int) -> str:
    """The id of a prediction for one logged answer: the same whenever the event is read again."""
    return f"{request_id}-{xxhash.xxh3_64_hexdigest(f'{logged_us} {entity}'.encode())}"


def resume_us(oldest_us: int, now_us: int, bound_us: int) -> int | None:
    """Instant from which to go on where the next request is older than the bound; None where it is
    not. It is half of the bound ago, so that one skip makes room for a while."""
    return now_us - bound_us // 2 if now_us - oldest_us > bound_us else None
