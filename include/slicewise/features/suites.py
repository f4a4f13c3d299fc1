"""A suite file is Great Expectations' own JSON, in the project's folder `expectations`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from slicewise.errors import DefinitionError
from slicewise.features.expectations import Expectation, expectations_of, refuse_lacking

FOLDER = "expectations"
EVENTS, FEATURES = "events", "features"
_EXPECTED = '"events.<source>" or "features.<view>"'


@dataclass(frozen=True)
class Suite:
    """Expectations of a file. name: "events.<source>" or "features.<view>". where: the file."""

    name: str
    expectations: tuple[Expectation, ...]
    where: str


def read_suites(project: Path) -> tuple[Suite, ...]:
    """The suites of a project's folder, in the order of their files' names. Raises
    DefinitionError."""
    return tuple(read_suite(file) for file in sorted((project / FOLDER).glob("*.json")))


def read_suite(file: Path) -> Suite:
    """The suite of a file. Raises DefinitionError where it is none."""
    where = str(file)
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"it cannot be read: {error}",
            where=where,
            expected="JSON in UTF-8",
            next_step="correct the file; nothing was deployed",
        ) from error
    name = raw.get("name") if isinstance(raw, dict) else None
    kind, _, subject = str(name).partition(".")
    if kind not in (EVENTS, FEATURES) or not subject:
        raise DefinitionError(
            f"name is {name!r}",
            where=where,
            expected=f"a suite of Great Expectations, whose name is {_EXPECTED}",
            next_step="name the source or the view that it is about",
        )
    expectations = expectations_of(raw.get("expectations", []), where)
    for expectation in expectations:
        refuse_lacking(expectation, where)
    return Suite(str(name), expectations, where)
