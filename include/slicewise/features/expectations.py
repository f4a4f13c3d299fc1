"""An expectation is written beside what it is about, in Great Expectations' own names; it bears on
nothing that is stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.calls import checked_call, shown
from slicewise.errors import DefinitionError, Location, written_at
from slicewise.features.expectation_names import ALSO, ARGUMENTS, NEEDED
from slicewise.features.naming import frozen
from slicewise.names import nearest

SEVERITIES = ("critical", "warning", "info")
"""Severities of alerts: critical fails the run and pages, warning opens an incident, info is kept
alone."""
OF_COLUMNS = ("column", "column_A", "column_B", "column_list")
"""Arguments that name columns."""
_FORM = 'sw.expect("expect_column_values_to_not_be_null", column="amount", severity="warning")'


@dataclass(frozen=True)
class Expectation:
    """An expectation on a batch of events or of a feature's values. type, kwargs: as Great
    Expectations names them. severity: what follows where it is not met."""

    type: str
    kwargs: Mapping[str, Any]
    severity: str = "warning"
    location: Location | None = field(default=None, compare=False, repr=False)

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it is about."""
        names: list[str] = []
        for argument in OF_COLUMNS:
            value = self.kwargs.get(argument, ())
            names += [value] if isinstance(value, str) else value
        return tuple(names)


@checked_call
def expect(name: str, /, *, severity: str = "warning", **kwargs: Any) -> Expectation:
    """An expectation in Great Expectations' own names, for `expect=[…]` of a source or a feature.

    name: as "expect_column_values_to_be_between"; kwargs: its arguments, as column="amount",
    min_value=0, mostly=0.99. On a feature the column may be left out: it is each of the feature's.
    severity: "critical" fails the run and pages, "warning" opens an incident, "info" is kept.
    """
    return made(name, kwargs, severity, "sw.expect(…)", written_at())


def made(
    type_name: object,
    kwargs: Mapping[str, Any],
    severity: object,
    where: str,
    location: Location | None = None,
) -> Expectation:
    """The expectation, with its name, its arguments and its severity checked."""
    if not isinstance(type_name, str) or type_name not in ARGUMENTS:
        raise DefinitionError(
            f"{shown(type_name)} is no expectation",
            where=where,
            expected='a name of Great Expectations, as "expect_column_values_to_be_between"',
            next_step=nearest(str(type_name), ARGUMENTS)
            or "see greatexpectations.io/expectations for all of them",
        )
    if severity not in SEVERITIES:
        raise DefinitionError(
            f"severity is {shown(severity)}",
            where=where,
            expected="one of " + ", ".join(SEVERITIES),
            next_step='leave it out for "warning"',
        )
    taken = (*ARGUMENTS[type_name], *ALSO)
    for name in kwargs:
        if name not in taken:
            raise DefinitionError(
                f"{type_name} takes no {name}",
                where=where,
                expected="some of " + ", ".join(taken),
                next_step=nearest(name, taken) or "leave it out",
            )
    mostly = kwargs.get("mostly", 1)
    if isinstance(mostly, bool) or not isinstance(mostly, int | float) or not 0 <= mostly <= 1:
        raise DefinitionError(
            f"mostly is {shown(mostly)}",
            where=where,
            expected="the share that has to meet it, from 0 to 1",
            next_step="write 0.99 for all but one in a hundred",
        )
    for name in OF_COLUMNS[:3]:
        _refuse_no_text(kwargs.get(name, ""), name, where)
    for name in kwargs.get("column_list") or ():
        _refuse_no_text(name, "column_list", where)
    plain = {n: list(v) if isinstance(v, tuple | set) else v for n, v in kwargs.items()}
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DefinitionError(
            f"the arguments of {type_name} are not JSON: {error}",
            where=where,
            expected="texts, numbers, true, false, null, and lists and dicts of them",
            next_step="write a decimal or a date as text",
        ) from error
    return Expectation(type_name, frozen(plain), str(severity), location)


def read(value: object, where: str) -> Expectation:
    """The expectation of Great Expectations' own JSON form: type, kwargs and severity."""
    if not isinstance(value, Mapping) or not isinstance(value.get("kwargs", {}), Mapping):
        raise DefinitionError(
            f"{shown(value)} is no expectation",
            where=where,
            expected='{"type": "expect_…", "kwargs": {…}, "severity": "warning"}',
            next_step="write it so, as Great Expectations writes a suite's",
        )
    severity = value.get("severity", "warning")
    return made(value.get("type"), value.get("kwargs", {}), severity, where)


def expectations_of(values: object, where: str) -> tuple[Expectation, ...]:
    """The expectations of `expect=[…]`; dicts stand in Great Expectations' own JSON form."""
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
        raise DefinitionError(
            f"expect is {shown(values)}",
            where=where,
            expected=f"a list: expect=[{_FORM}]",
            next_step="put it in [ ]",
        )
    return tuple(
        value if isinstance(value, Expectation) else read(value, f"expect of {where}")
        for value in values
    )


def refuse_lacking(expectation: Expectation, where: str) -> None:
    """Refuse an expectation that leaves out an argument which it needs."""
    for name in NEEDED[expectation.type]:
        if name not in expectation.kwargs:
            raise DefinitionError(
                f"{expectation.type} lacks {name}",
                where=where,
                expected=", ".join(NEEDED[expectation.type]),
                next_step=f"write {name}=…",
            )


def refuse_unknown(expectation: Expectation, columns: Collection[str], where: str) -> None:
    """Refuse an expectation about a column that is not there."""
    for name in expectation.columns():
        if name not in columns:
            raise DefinitionError(
                f"{expectation.type} names {name!r}, which is no column",
                where=where,
                expected="one of " + ", ".join(columns),
                next_step=nearest(name, columns) or "correct the name",
            )


def _refuse_no_text(name: object, argument: str, where: str) -> None:
    if not isinstance(name, str):
        raise DefinitionError(
            f"{argument} is {shown(name)}",
            where=where,
            expected=f'the name of a column: {argument}="amount"',
            next_step="write the name in quotes",
        )
