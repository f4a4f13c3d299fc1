"""A newcomer finds the rooms: each stands in the table, holds few modules, says what it is for, and
is in no circle."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.import_table import (
    MOST_MODULES,
    PACKAGE,
    ROOMS,
    ROOT,
    facts_of,
    imports_of,
    python_files,
)

FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py")})

# what is still to be cut, by what the files import for type checkers too; a circle leaves this
# list, none comes in
CIRCLES_OF_TYPES: tuple[frozenset[str], ...] = ()


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


def arrows(*, for_types: bool = False) -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports at any time; `for_types`: for type
    checkers alone too."""
    return {
        module: {
            home_of(imported.name)
            for imported in imports_of(path, for_types=for_types)
            if imported.name.split(".")[0] == "slicewise"
        }
        - {module}
        for module, path in MODULES.items()
    }


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The members of one circle, the first of them twice; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        members: list[str] = error.args[1]
        return members
    return []


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """All that is imported from here on, by whatever way."""
    result: set[str] = set()
    left = [*graph[start]]
    while left:
        module = left.pop()
        if module not in result:
            result.add(module)
            left.extend(graph.get(module, ()))
    return result


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Files that import each other, by whatever way: the members of each circle."""
    ways = {module: reachable(graph, module) for module in graph}
    members = {
        module: {other for other in ways[module] if module in ways.get(other, ())}
        for module in graph
    }
    results = {frozenset(some) for some in members.values() if some}
    return sorted(map(set, results), key=sorted)


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})[0] in {"a", "b", "c"}
    assert not circle({"a": {"b", "c"}, "b": {"c"}})
    two = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}, "e": {"a", "d"}}
    assert circles(two) == [{"a", "b"}, {"c", "d"}]


def test_an_import_for_type_checkers_alone_is_an_arrow_too(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(
        "import json\nif TYPE_CHECKING:\n    from slicewise import clock\nelse:\n    import csv\n"
    )
    assert [imported.name for imported in imports_of(file)] == ["json"]
    assert [imported.name for imported in imports_of(file, for_types=True)] == [
        "json",
        "slicewise.clock",
        "csv",
    ]


def test_no_files_need_each_other_for_their_types_either() -> None:
    graph = arrows(for_types=True)
    graph["slicewise"] = set()  # the door of all doors, which shows type checkers everything
    result = circles(graph)
    left = [
        members for members in result if not any(members <= listed for listed in CIRCLES_OF_TYPES)
    ]
    assert not left, "\n".join(", ".join(sorted(members)) for members in left)
    gone = [
        listed for listed in CIRCLES_OF_TYPES if not any(members <= listed for members in result)
    ]
    assert not gone, f"these are cut, and leave the list: {gone}"


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
            graph.setdefault(room(module), set()).update(
                {room(target) for target in targets} - {room(module)}
            )
    assert not circle(graph)


def test_every_room_within_a_room_stands_in_the_table() -> None:
    results: dict[str, set[str]] = {}
    for folder in FOLDERS:
        name = folder.relative_to(PACKAGE).as_posix()
        if "/" in name:
            above, _, own = name.rpartition("/")
            results.setdefault(above, set()).add(own)
    assert results == {above: set(rooms) for above, rooms in ROOMS.items()}


@pytest.mark.parametrize("above", sorted(ROOMS))
def test_within_a_room_left_is_imported_by_right_and_never_back(above: str) -> None:
    prefix = f"slicewise.{above.replace('/', '.')}."
    position = {name: i for i, name in enumerate(ROOMS[above])}

    def own(module: str) -> int | None:
        return (
            position.get(module.removeprefix(prefix).partition(".")[0])
            if module.startswith(prefix)
            else None
        )

    broken = [
        f"{module} imports {target}"
        for module, targets in arrows().items()
        for target in targets
        if (left := own(target)) is not None and (right := own(module)) is not None and left > right
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_folder_says_what_it_is_for_and_holds_few_modules(folder: Path) -> None:
    door = folder / "__init__.py"
    assert door.is_file(), "a room without a door"
    assert facts_of(door).docstring, "a door that does not say what is behind it"
    modules = sorted(path.stem for path in folder.glob("*.py") if path != door)
    assert len(modules) <= MOST_MODULES, modules


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_four_siblings_share_a_prefix(folder: Path) -> None:
    counts = Counter(
        path.stem.partition("_")[0] for path in folder.glob("*_*.py") if path.stem != "__init__"
    )
    assert not [prefix for prefix, count in counts.items() if count >= 4 and prefix]


def test_folders_of_tests_hold_few_modules_too() -> None:
    modules = Counter(path.parent.relative_to(ROOT).as_posix() for path in python_files("tests"))
    assert not {name: count for name, count in modules.items() if count > MOST_MODULES}


def nodes_of_naming(path: Path, attribute: str) -> Iterator[ast.AST]:
    """All nodes of a file, if its text has the attribute anywhere; else none."""
    text = path.read_text(encoding="utf-8")
    return ast.walk(ast.parse(text)) if attribute in text else iter(())


def test_only_windows_and_the_planner_ask_what_kind_a_window_is() -> None:
    branches = []
    for path in python_files("include/slicewise"):
        if path.parent in (PACKAGE / "windows", PACKAGE / "features" / "plan"):
            continue
        for node in nodes_of_naming(path, ".kind"):
            subjects = (
                [node.left, *node.comparators]
                if isinstance(node, ast.Compare)
                else [node.subject]
                if isinstance(node, ast.Match)
                else []
            )
            for subject in subjects:
                if isinstance(subject, ast.Attribute) and subject.attr == "kind":
                    text = ast.unparse(subject)
                    if text.endswith(("window.kind", "w.kind")):
                        branches.append(f"{path.relative_to(ROOT)}:{subject.lineno} {text}")
    assert not branches, "a window answers by a method: " + "; ".join(branches)


def test_only_the_planner_asks_a_unit_by_its_event_list() -> None:
    checks = []
    for path in python_files("include/slicewise"):
        if path.parent == PACKAGE / "features" / "plan":
            continue
        for node in nodes_of_naming(path, ".event_list"):
            subjects: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                subjects = [node.left, *node.comparators]
            elif isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
                subjects = [node.test]
            elif isinstance(node, ast.BoolOp):
                subjects = node.values
            results = [
                subject
                for subject in subjects
                if isinstance(subject, ast.Attribute) and subject.attr == "event_list"
            ]
            checks += [f"{path.relative_to(ROOT)}:{attribute.lineno}" for attribute in results]
    assert not checks, "isinstance of SliceUnit or ListUnit tells them apart: " + "; ".join(checks)
