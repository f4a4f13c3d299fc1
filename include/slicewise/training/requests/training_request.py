"""A training set's question is found answerable, or refused, before an archive, the log or Spark is
touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slicewise.errors import BadRequest
from slicewise.features.plan.deployment import Deployment
from slicewise.training.requests.unit_requests import (
    KNOWLEDGE,
    UnitRequest,
    entity_types,
    named,
    questions_of,
    resolve,
)
from slicewise.training.tables.spine import Given, Spine, TokenColumns, given_spine, read_spine

LOCAL, SPARK, AUTO = "local", "spark", "auto"
ENGINES = (AUTO, LOCAL, SPARK)


@dataclass(frozen=True)
class TrainingRequest:
    """The rows and features of a training set, typed by a deployment."""

    deployment: Deployment
    refs: tuple[str, ...]
    requested: tuple[UnitRequest, ...]
    spine: Spine
    tokens: TokenColumns | None
    """Tokens of each row, where knowledge is that of tokens."""


def looked_through(spine: object, features: object, knowledge: str) -> Given:
    """The spine, with all refused that is wrong under any deployment. Nothing is opened but the
    spine's own file.

    Raises BadRequest.
    """
    if knowledge not in KNOWLEDGE:
        raise BadRequest(
            f"knowledge {knowledge!r}",
            where="knowledge",
            expected="event_time (all that is known now), token (what an answer contained) or "
            "arrival (what was applied by the row's instant)",
            next_step="give one of them",
        )
    refs = named(features)
    if isinstance(spine, list) and not spine:
        raise _no_rows()  # it has no columns either, which is not what is wrong with it
    given = given_spine(spine)
    if not given.table.num_rows:
        raise _no_rows()
    if not isinstance(refs, str):
        _refuse_taken(given, refs)
    if knowledge == "token":
        _ = given.tokens  # refused here where one is none
    return given


def refuse_engine(engine: str) -> None:
    """Raises BadRequest for what is no engine."""
    if engine not in ENGINES:
        raise BadRequest(
            f"engine {engine!r}",
            where="engine",
            expected="auto, local or spark",
            next_step="leave it out: slicewise chooses by size",
        )


def training_request(
    deployment: Deployment, spine: object, features: object, knowledge: str
) -> TrainingRequest:
    """The question, with its entity typed as the deployment declares. Raises BadRequest,
    UnknownName."""
    if not isinstance(spine, Spine | Given):
        spine = looked_through(spine, features, knowledge)
    refs, requested = resolve(deployment, features)
    rows = (
        spine
        if isinstance(spine, Spine)
        else read_spine(spine, entity_types(requested), questions_of(requested))
    )
    _refuse_taken(rows, refs)
    return TrainingRequest(
        deployment, refs, requested, rows, rows.tokens if knowledge == "token" else None
    )


def _no_rows() -> BadRequest:
    return BadRequest(
        "the spine has no rows",
        where="spine",
        expected="at least one entity at one instant",
        next_step="see how it was made: a filter or a join may have left nothing",
    )


def _refuse_taken(spine: Given | Spine, refs: Sequence[str]) -> None:
    for ref in refs:
        if ref in spine.table.column_names:
            raise BadRequest(
                f"the spine has a column {ref!r} already",
                where="spine",
                expected="no column of that name",
                next_step="rename it",
            )
