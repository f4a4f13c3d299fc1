"""Rooms are entered by their doors.

A room names one to three doors, and its rooms have doors of their own. What other rooms import lies
behind one of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.architecture.import_table import PACKAGE, ROOT, facts_of, imports_of, python_files
from tests.architecture.test_rooms import FOLDERS, MODULES, home_of

EVERY_MODULE = (
    "aggregates/kernel",
    "lifecycle",
    "stores/lake",
    "stores/online/operations",
    "windows",
)
"""Rooms whose modules are all doors, since other rooms import each: a tool that aggregates are made
with, a decision about running the platform, a table of the lake, an operation of the store, a kind
of window. There is no inside to keep."""
OWN = {"stores/lake": "files"}
"""Module of such a room that is its own."""


def doors_of(folder: Path) -> tuple[str, ...]:
    """Names in the line `Doors: a, b, c.` of what a room says of itself; none where it has no such
    line."""
    lines = [
        line.removeprefix("Doors: ").rstrip(".")
        for line in facts_of(folder / "__init__.py").docstring.splitlines()
        if line.startswith("Doors: ")
    ]
    return tuple(lines[0].split(", ")) if len(lines) == 1 else ()


def names_in(folder: Path) -> set[str]:
    """Rooms and modules of a room, and what its modules define."""
    modules = [path for path in folder.rglob("*.py") if path.name != "__init__.py"]
    rooms = {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()}
    defined = {name for path in folder.rglob("*.py") for name in facts_of(path).defined}
    return rooms | {path.stem for path in modules} | defined


@cache
def doors(folder: Path) -> frozenset[str]:
    """Modules and rooms of a room that other rooms may import: those that its doors are, or are
    defined in, and its rooms."""
    room = folder.relative_to(PACKAGE).as_posix()
    if room in EVERY_MODULE:
        return frozenset(path.stem for path in folder.glob("*.py")) - {OWN.get(room)}
    named = set(doors_of(folder))
    rooms = {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()}
    modules = {path.stem for path in folder.glob("*.py")}
    return frozenset(
        rooms
        | (modules & named)
        | {path.stem for path in folder.glob("*.py") if facts_of(path).defined & (named - modules)}
    )


def entered(path: Path) -> set[tuple[str, str]]:
    """(room, module) of other rooms that a file imports from."""
    own = {path.parent, *path.parent.parents}
    homes = {
        MODULES[home_of(imported.name)]
        for imported in imports_of(path)
        if imported.name.startswith("slicewise.")
    }
    return {
        (home.parent.relative_to(PACKAGE).as_posix(), home.stem)
        for home in homes
        if home.stem != "__init__" and home.parent not in own
    }


def side_doors() -> set[str]:
    """`room/module` of what other rooms of the package import past the doors."""
    return {
        f"{room}/{module}"
        for path in MODULES.values()
        for room, module in entered(path)
        if module not in doors(PACKAGE / room)
    }


def test_other_rooms_come_in_by_a_door() -> None:
    assert not side_doors(), "imported past the doors of their rooms"


@pytest.mark.parametrize("room", EVERY_MODULE)
def test_where_every_module_is_a_door_others_import_each(room: str) -> None:
    others = [*MODULES.values(), *python_files("dags", "plugins")]
    imported = {module for path in others for home, module in entered(path) if home == room}
    assert imported == doors(PACKAGE / room) - {"__init__"}


def test_a_module_without_a_door_is_found() -> None:
    schema = doors(PACKAGE / "features" / "schema")
    assert "types" in schema, "arrow_type is defined there"
    assert "paths" not in schema
    inside = entered(PACKAGE / "features" / "schema" / "kafka_source.py")
    assert not {module for room, module in inside if room == "features/schema"}


@pytest.mark.parametrize("folder", FOLDERS[1:], ids=lambda room: room.relative_to(ROOT).as_posix())
def test_a_room_names_its_doors_and_has_them(folder: Path) -> None:
    doors = doors_of(folder)
    assert 1 <= len(doors) <= 3, (
        "a line `Doors: a, b, c.` with the one to three names that other rooms use"
    )
    assert set(doors) <= names_in(folder), set(doors) - names_in(folder)
