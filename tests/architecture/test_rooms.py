"""A newcomer finds the rooms: each stands in the table, holds few modules, says what it is for, and is in no circle."""

from __future__ import annotations

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.import_table import MOST_MODULES, PACKAGE, ROOMS, ROOT, imports_of, python_files

FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")})
# what is still to be divided; a folder leaves this list, none comes in
TOO_FULL_TESTS = {"tests/simulation": 41, "tests/drills": 21, "tests/laws": 17, "tests/support": 28}


def module_of(path: Path) -> str:
    """`include/slicewise/codec/ids.py` -> `slicewise.codec.ids`; a door has its room's name."""
    dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return dotted.removesuffix(".__init__")


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py")}


def home_of(name: str) -> str:
    """The module that an imported name lies in."""
    while name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def arrows() -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports at any time."""
    return {
        module: {home_of(each.name) for each in imports_of(path) if each.name.split(".")[0] == "slicewise"} - {module}
        for module, path in MODULES.items()
    }


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The members of one circle, the first of them twice; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        members: list[str] = found.args[1]
        return members
    return []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})[0] in {"a", "b", "c"}
    assert not circle({"a": {"b", "c"}, "b": {"c"}})


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not circle(arrows())


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_rooms_import_each_other_in_a_circle(depth: int) -> None:
    def room(module: str) -> str:
        folder = MODULES[module].parent.relative_to(PACKAGE).parts
        # a module that stands above this floor is a room of its own
        return "/".join(folder[:depth]) if len(folder) >= depth else module

    graph: dict[str, set[str]] = {}
    for module, targets in arrows().items():
        if module != "slicewise":  # the door of all doors
            graph.setdefault(room(module), set()).update({room(each) for each in targets} - {room(module)})
    assert not circle(graph)


def test_every_room_within_a_room_stands_in_the_table() -> None:
    found: dict[str, set[str]] = {}
    for folder in FOLDERS:
        name = folder.relative_to(PACKAGE).as_posix()
        if "/" in name:
            above, _, own = name.rpartition("/")
            found.setdefault(above, set()).add(own)
    assert found == {above: set(rooms) for above, rooms in ROOMS.items()}


@pytest.mark.parametrize("above", sorted(ROOMS))
def test_within_a_room_left_is_imported_by_right_and_never_back(above: str) -> None:
    prefix = f"slicewise.{above.replace('/', '.')}."
    place = {name: i for i, name in enumerate(ROOMS[above])}

    def own(module: str) -> int | None:
        return place.get(module.removeprefix(prefix).partition(".")[0]) if module.startswith(prefix) else None

    broken = [
        f"{module} imports {target}"
        for module, targets in arrows().items()
        for target in targets
        if (left := own(target)) is not None and (right := own(module)) is not None and left > right
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_a_folder_says_what_it_is_for_and_holds_few_modules(folder: Path) -> None:
    door = folder / "__init__.py"
    assert door.is_file(), "a room without a door"
    assert ast.get_docstring(ast.parse(door.read_text(encoding="utf-8"))), "a door that does not say what is behind it"
    modules = sorted(path.stem for path in folder.glob("*.py") if path != door)
    assert len(modules) <= MOST_MODULES, modules


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_no_four_siblings_share_a_prefix(folder: Path) -> None:
    found = Counter(path.stem.partition("_")[0] for path in folder.glob("*_*.py") if path.stem != "__init__")
    assert not [prefix for prefix, count in found.items() if count >= 4 and prefix]


def test_folders_of_tests_hold_few_modules_too() -> None:
    found = Counter(path.parent.relative_to(ROOT).as_posix() for path in python_files("tests"))
    assert {name: count for name, count in found.items() if count > MOST_MODULES} == TOO_FULL_TESTS
