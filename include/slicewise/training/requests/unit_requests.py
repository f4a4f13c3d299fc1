"""Features are named by refs, and each unit is asked for those of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slicewise.calls import shown
from slicewise.errors import BadRequest
from slicewise.features.declare.definitions import FeatureSet
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.training.requests.questions import question_types
from slicewise.training.tables.spine import AlikeTokens, NoToken, TokenColumns

ARRIVAL = "arrival"
KNOWLEDGE = ("event_time", "token", ARRIVAL)


@dataclass(frozen=True)
class UnitRequest:
    """The features of one unit that a request names, with the refs under which they are
    answered."""

    unit: StorageUnit
    features: tuple[PlannedFeature, ...]
    view: str
    """Name by which it is asked for: the view's, or its live version's own."""

    def ref(self, feature: PlannedFeature) -> str:
        """ "view:column"."""
        return f"{self.view}:{feature.column}"


def resolve(
    deployment: Deployment, features: object
) -> tuple[tuple[str, ...], tuple[UnitRequest, ...]]:
    """Refs in the order asked, and what each unit is asked for.

    features: a feature set (object or name), or a list of refs "view:column". Raises UnknownName
    and BadRequest.
    """
    refs = named(features)
    if isinstance(refs, str):
        refs = deployment.feature_set(refs).features
    units: dict[tuple[str, str], tuple[StorageUnit, list[PlannedFeature]]] = {}
    for ref in refs:
        unit, feature = deployment.resolve(ref)
        which = (unit.storage_fingerprint, ref.partition(":")[0])
        units.setdefault(which, (unit, []))[1].append(feature)
    return refs, tuple(
        UnitRequest(unit, tuple(some), view) for (_, view), (unit, some) in units.items()
    )


def named(features: object) -> tuple[str, ...] | str:
    """The refs that are asked for, or the name of a feature set, which a deployment knows. Raises
    BadRequest."""
    if isinstance(features, str) and ":" not in features and features:
        return features
    refs = _refs(features)
    if not refs:
        raise BadRequest(
            "no features",
            where="features",
            expected='refs such as "view:column"',
            next_step="name at least one",
        )
    for ref in refs:
        if ":" not in ref:
            raise BadRequest(
                f"{ref!r} is no feature",
                where="features",
                expected='refs such as "view:column"',
                next_step="ask for a feature set by its name alone, or for features by their refs",
            )
    twice = sorted({ref for ref in refs if refs.count(ref) > 1})
    if twice:
        raise BadRequest(
            f"{', '.join(twice)} stand twice",
            where="features",
            expected="each feature once",
            next_step="leave the second out",
        )
    return refs


def _refs(features: object) -> tuple[str, ...]:
    if isinstance(features, FeatureSet):
        return tuple(features.features)
    if isinstance(features, str):
        return (features,) if features else ()
    if isinstance(features, Sequence) and all(isinstance(ref, str) for ref in features):
        return tuple(features)
    raise BadRequest(
        f"{shown(features)} names no features",
        where="features",
        expected='the name of a feature set, or a list of refs such as ["view:column"]',
        next_step="name what the training set is to hold",
    )


def entity_types(requested: Sequence[UnitRequest]) -> dict[str, str]:
    """Declared type of every entity column that the spine must have."""
    types: dict[str, str] = {}
    for unit_request in requested:
        for name, kind in unit_request.unit.entity:
            if types.setdefault(name, kind) != kind:
                raise BadRequest(
                    (
                        f"the entity column {name!r} is {types[name]} in one view and {kind} in "
                        "another"
                    ),
                    where="features",
                    expected="views that agree on their entity",
                    next_step="ask for them in two data sets",
                )
    return types


def questions_of(requested: Sequence[UnitRequest]) -> dict[str, str]:
    """Declared type of every column that the features are asked by. Raises BadRequest."""
    return question_types((unit_request.unit, unit_request.features) for unit_request in requested)


def tokens_of(unit: StorageUnit, tokens: TokenColumns) -> tuple[AlikeTokens, ...]:
    """Per row the token of this unit. Raises BadRequest where a row has none."""
    try:
        # views that share an event list have a token each: that of this view's features is meant
        return tokens.of_unit(unit.storage_fingerprint, unit.definition_fingerprint)
    except NoToken as error:
        (row,) = error.args
    raise BadRequest(
        (
            f"no token of row {row} is of view {unit.view!r} as it is deployed (unit "
            f"{unit.storage_fingerprint})"
        ),
        where="token",
        expected="the token of an answer that read this view",
        next_step="ask for the features that the answer had, or with the deployment of its time",
    )


def as_answered(
    deployment: Deployment, features: str | tuple[str, ...], table: pa.Table
) -> pa.Table:
    """Features with the defaults of their feature set in place of nulls; of refs there are none."""
    if not isinstance(features, str):
        return table
    for ref, default in deployment.feature_set(features).defaults:
        at = table.column_names.index(ref)
        filled = pc.fill_null(table[ref], pa.scalar(default, table[ref].type))
        table = table.set_column(at, ref, filled)
    return table
