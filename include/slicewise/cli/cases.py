"""A case passes when the whole path answers exactly what its author expects."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.declare.definitions import Case, FeatureView
from slicewise.names import listed, nearest


@dataclass(frozen=True)
class Difference:
    """A feature that answered something else."""

    column: str
    expected: Any
    answered: Any


@dataclass(frozen=True)
class Outcome:
    """Result of a case. error: why it could not be run. refused: records left out, by reason.
    raised: what functions of the user's own raised on these events."""

    name: str
    differences: tuple[Difference, ...] = ()
    error: str | None = None
    refused: str = ""
    raised: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None


def run_case(view: FeatureView, case: Case, number: int) -> Outcome:
    """Runs one case through `sw.evaluate`."""
    name = case.name or f"case {number}"
    subject = f"{name!r} of {view.subject}" + (f" ({case.location})" if case.location else "")
    try:
        return _answered(view, case, name, subject)
    except SlicewiseError as error:
        text = DefinitionError(
            error.what,
            where=f"{subject}, {error.where}" if error.where else subject,
            expected=error.expected,
            next_step=error.next_step,
        )
        return Outcome(name, error=str(text))


def _answered(view: FeatureView, case: Case, name: str, subject: str) -> Outcome:
    from slicewise.training.evaluate import REFUSED, evaluated

    columns = [column for feature in view.features for column in feature.columns()]
    for column in case.expect:
        if column not in columns:
            raise DefinitionError(
                f"the case expects unknown feature {column!r}",
                where=subject,
                expected="one of " + listed(columns),
                next_step=nearest(column, columns),
            )
    query = {
        **_entity(view, case, subject),
        "at": case.instant(case.at, subject),
        "mode": case.mode,
    }
    table, raised = evaluated(view, [dict(event) for event in case.events], [query])
    row = table.to_pylist()[0]
    differences = tuple(
        Difference(column, wanted, row[column])
        for column, wanted in case.expect.items()
        if not _same(row[column], wanted)
    )
    metadata = table.schema.metadata or {}
    return Outcome(
        name, differences, refused=metadata.get(REFUSED, b"").decode(), raised=tuple(raised)
    )


def _entity(view: FeatureView, case: Case, subject: str) -> Mapping[str, Any]:
    if case.entity is not None:
        return case.entity
    entities = {tuple(event.get(column) for column in view.entity) for event in case.events}
    if len(entities) != 1:
        raise DefinitionError(
            (
                f"the events hold {len(entities)} entities, and the case does not say which one "
                "is asked"
            ),
            where=subject,
            expected="entity={" + ", ".join(f'"{column}": …' for column in view.entity) + "}",
            next_step="add it to the case",
        )
    return dict(zip(view.entity, entities.pop(), strict=True))


def _same(answered: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(answered, bool):
        return answered is wanted
    if isinstance(answered, dt.datetime) and isinstance(wanted, str | int):
        return answered == Case.instant(wanted, "expect")
    if isinstance(answered, list) and isinstance(wanted, list | tuple):
        return len(answered) == len(wanted) and all(map(_same, answered, wanted))
    if isinstance(answered, dict) and isinstance(wanted, Mapping):
        return answered.keys() == wanted.keys() and all(
            _same(answered[k], wanted[k]) for k in wanted
        )
    return bool(answered == wanted)
