"""Figures of the house: rooms, files, circles of imports, arrows between rooms, lines.

    python docs/structure.py                     of the files as they stand
    python docs/structure.py --at COMMIT         of a commit
    python docs/structure.py --at A --at B       of several, side by side
    python docs/structure.py --json              one JSON object for each

Arrows go from one room or module at the top of the package to another, counted once. One goes back
up where the import table of that state (tests/architecture/import_table.py, LAYERS) has its end to
the right of its beginning.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "include/slicewise/"
TABLE = "tests/architecture/import_table.py"
DOOR = "slicewise"
"""The door of all doors shows type checkers everything: its arrows are none of the house's."""
NAMES = {
    "rooms_at_the_top": "rooms at the top",
    "modules_at_the_top": "modules beside them",
    "rooms": "rooms in all",
    "files": "Python files",
    "fullest_folder": "modules of the fullest folder",
    "circles": "circles of imports at run time",
    "circles_for_types": "and with those for type checkers",
    "arrows": "arrows between rooms",
    "arrows_back": "of them back up",
    "statements": "statements of Python",
    "python_lines": "lines of Python",
    "java_lines": "lines of Java",
}


def statements(text: str) -> int:
    """Statements of a file, without docstrings: they do not depend on the width of a line."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))
    return sum(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes
    )


def files_at(commit: str | None) -> dict[str, str]:
    """Path -> text of the library's Python and Java, and of the import table."""
    if commit is None:
        paths = [path for end in ("py", "java") for path in (ROOT / PACKAGE).rglob(f"*.{end}")]
        return {
            path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
            for path in [*paths, ROOT / TABLE]
        }
    packed = subprocess.run(
        ["git", "archive", commit, "include", TABLE], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        files = {}
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith((".py", ".java")) else None
            if content is not None:
                files[member.name] = content.read().decode()
    return files


def module_of(path: str) -> str:
    """The module that a file is: a door has its room's name."""
    return (
        path.removeprefix("include/")
        .removesuffix(".py")
        .replace("/", ".")
        .removesuffix(".__init__")
    )


def imported(node: ast.AST, package: Sequence[str], *, for_types: bool) -> Iterator[str]:
    """Full names that a file imports at any time; with `for_types` for type checkers alone too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            above = package[: len(package) - child.level + 1] if child.level else ()
            base = ".".join([*above, *([child.module] if child.module else [])])
            yield from (f"{base}.{alias.name}" for alias in child.names)
        elif not (
            isinstance(child, ast.If)
            and "TYPE_CHECKING" in ast.unparse(child.test)
            and not for_types
        ):
            yield from imported(child, package, for_types=for_types)


def graph(
    modules: Mapping[str, tuple[ast.Module, bool]], *, for_types: bool
) -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports."""
    arrows: dict[str, set[str]] = {}
    for module, (tree, is_door) in modules.items():
        pieces = module.split(".")
        targets = set()
        for name in imported(tree, pieces if is_door else pieces[:-1], for_types=for_types):
            home = name
            while home and home not in modules:
                home = home.rpartition(".")[0]
            targets.add(home)
        arrows[module] = targets - {module, ""}
    return arrows


def circles(arrows: Mapping[str, set[str]]) -> list[set[str]]:
    """Modules that import each other by whatever way, circle by circle."""
    order: list[str] = []
    seen: set[str] = set()
    for start in arrows:
        stack = [(start, iter(sorted(arrows[start])))] if start not in seen else []
        seen.add(start)
        while stack:
            module, targets_left = stack[-1]
            for target in targets_left:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(sorted(arrows[target]))))
                    break
            else:
                order.append(module)
                stack.pop()
    back: dict[str, set[str]] = {module: set() for module in arrows}
    for module, targets in arrows.items():
        for target in targets:
            back[target].add(module)
    components, taken = [], set[str]()
    for start in reversed(order):
        if start in taken:
            continue
        members, to_visit = {start}, [start]
        taken.add(start)
        while to_visit:
            for importer in back[to_visit.pop()] - taken:
                taken.add(importer)
                members.add(importer)
                to_visit.append(importer)
        if len(members) > 1:
            components.append(members)
    return components


def layers_of(table: str) -> dict[str, int]:
    """Room or module at the top -> its place in the import table."""
    for node in ast.parse(table).body:
        if (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.target) == "LAYERS"
            and node.value is not None
        ):
            return {
                name: i for i, layer in enumerate(ast.literal_eval(node.value)) for name in layer
            }
    return {}


def figures(files: Mapping[str, str]) -> dict[str, int]:
    """Figures of one state of the library."""
    python = {
        path: text
        for path, text in files.items()
        if path.startswith(PACKAGE) and path.endswith(".py")
    }
    parsed = {
        module_of(path): (ast.parse(text), path.endswith("/__init__.py"))
        for path, text in python.items()
    }
    folders = {PurePosixPath(path).parent.as_posix() for path in python}
    within = Counter(
        PurePosixPath(path).parent.as_posix()
        for path in python
        if not path.endswith("/__init__.py")
    )
    run_time, typed = graph(parsed, for_types=False), graph(parsed, for_types=True)
    typed[DOOR] = set()
    layers = layers_of(files.get(TABLE, ""))
    arrows = {
        (module.split(".")[1], target.split(".")[1])
        for module, targets in run_time.items()
        for target in targets
        if module != DOOR and target != DOOR
    }
    arrows = {(left, right) for left, right in arrows if left != right}
    top = {path.removeprefix(PACKAGE).split("/")[0] for path in python}
    java = [text for path, text in files.items() if path.endswith(".java")]
    return {
        "rooms_at_the_top": sum(not name.endswith(".py") for name in top),
        "modules_at_the_top": sum(name.endswith(".py") for name in top - {"__init__.py"}),
        "rooms": len(folders) - 1,
        "files": len(python),
        "fullest_folder": max(within.values()),
        "circles": len(circles(run_time)),
        "circles_for_types": len(circles(typed)),
        "arrows": len(arrows),
        "arrows_back": sum(
            layers.get(right, -1) > layers.get(left, len(layers)) for left, right in arrows
        ),
        "statements": sum(map(statements, python.values())),
        "python_lines": sum(text.count("\n") for text in python.values()),
        "java_lines": sum(text.count("\n") for text in java),
    }


def shown(by_state: Mapping[str, Mapping[str, int]]) -> str:
    """The figures as a table of text, a column for each state."""
    width = max(map(len, NAMES.values()))
    lines = [f"{'':{width}}" + "".join(f"{name[:12]:>14}" for name in by_state)]
    for key, text in NAMES.items():
        lines.append(
            f"{text:{width}}" + "".join(f"{counts[key]:>14,}" for counts in by_state.values())
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--at", action="append", metavar="COMMIT", help="a commit, or `now`; may be given again"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    by_state = {
        state: figures(files_at(None if state == "now" else state)) for state in given.at or ["now"]
    }
    if given.json:
        print(*(json.dumps({"at": name, **counts}) for name, counts in by_state.items()), sep="\n")
    else:
        print(shown(by_state))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
