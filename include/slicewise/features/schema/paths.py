"""A column stands at one place of a record, and no place is inside of another's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from slicewise.errors import DefinitionError

Path = tuple[str, ...]
_STEP = re.compile(r"\.([A-Za-z_@][A-Za-z0-9_@-]*)|\['([^'\\]+)'\]")
MAX_STEPS = 20
_EXPECTED = """members of objects, from the record down: "$.user.id", or "$['@meta'].id" """.strip()


def parse_path(text: str, where: str) -> Path:
    """Names of members from the record down to the value; DefinitionError where the text is no
    path."""
    steps: list[str] = []
    at = 1
    while isinstance(text, str) and text.startswith("$") and at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            break
        steps.append(match[1] or match[2])
        at = match.end()
    if not steps or at != len(text) or len(steps) > MAX_STEPS:
        raise DefinitionError(
            f"{text!r} is no path",
            where=where,
            expected=_EXPECTED,
            next_step="an element of an array cannot be named: declare the column as array<…>",
        )
    return tuple(steps)


def column_paths(
    columns: Mapping[str, object], paths: Mapping[str, str], where: str
) -> dict[str, Path]:
    """The path of every column: its own name where none is given.

    Raises DefinitionError for a path of no column, and for one that is another's or lies inside of
    it.
    """
    for name in paths:
        if name not in columns:
            raise DefinitionError(
                f"paths names {name!r}, which is no column",
                where=where,
                expected="one of " + ", ".join(columns),
                next_step="declare its type in the schema",
            )
    by_column = {
        name: parse_path(paths[name], f"path of column {name!r} of {where}")
        if name in paths
        else (name,)
        for name in columns
    }
    ordered = sorted(by_column.items(), key=lambda column_path: column_path[1])
    for (one, outer), (other, inner) in pairwise(ordered):
        if inner[: len(outer)] == outer:
            raise DefinitionError(
                (
                    f"columns {one!r} and {other!r} stand at one place: {'.'.join(outer)} and "
                    f"{'.'.join(inner)}"
                ),
                where=where,
                expected="places of their own",
                next_step="drop one of them",
            )
    return by_column
