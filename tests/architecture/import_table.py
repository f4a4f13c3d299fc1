"""The import table of the project as data, and the reader of imports that the test uses.

A module belongs to one layer; it may import every layer to its left, and of its own layer what the
layer allows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "include" / "slicewise"

# Left may be imported by right, never back. Within one tuple the parts may import each other,
# except in SIBLINGS.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "extras", "hints", "names", "calls", "settings", "clock", "log", "java", "arrow"),
    ("windows", "aggregates"),
    ("client",),
    ("offsets",),
    ("codec",),
    ("models",),
    ("features",),
    ("reading",),
    ("stores",),
    ("spark", "emission", "serving", "training", "checks", "lifecycle", "replay", "probes"),
    ("local",),
    ("cli",),
)
# The last working layer: its parts meet only through stores/ports and the layers to the left. What
# pure decisions a part needs it takes from lifecycle, which imports none of them.
SIBLINGS = frozenset(
    {"spark", "emission", "serving", "training", "checks", "lifecycle", "replay", "probes"}
)
ALLOWED_BETWEEN_SIBLINGS = frozenset(
    {
        ("spark", "lifecycle"),
        ("spark", "emission"),
        ("spark", "training"),
        ("checks", "lifecycle"),
        ("serving", "lifecycle"),
        ("training", "lifecycle"),
    }
)

# Rooms within a room: of these, too, left may be imported by right, never back. A room's own
# modules stand between its rooms where their imports put them; that no files import each other in a
# circle is held for all.
ROOMS: dict[str, tuple[str, ...]] = {
    "aggregates": ("kernel", "exact", "ordering", "sketches", "combinators", "custom"),
    "codec": ("store_fields",),
    "features": ("schema", "rowlogic", "declare", "plan", "sql"),
    "features/plan": ("changes",),
    "features/rowlogic": ("functions",),
    "models": ("versions", "fitted"),
    "reading": ("explained",),
    "stores": ("log", "online", "lake", "recovery", "jobs"),
    "stores/lake": ("imported",),
    "stores/online": ("rules", "model", "sharded", "operations", "redis", "memory"),
    "spark": (
        "lineage",
        "runtime",
        "records",
        "microbatch",
        "lake",
        "emission",
        "realtime",
        "datasets",
    ),
    "serving": ("connection", "answering", "logged", "shadow", "http"),
    "serving/answering": ("memory",),
    "serving/http": ("training_sets",),
    "stores/online/redis": ("scripts",),
    "training": (
        "tables",
        "requests",
        "events",
        "answering",
        "archiving",
        "recent",
        "scaled",
        "scheduled",
        "versions",
        "logged",
        "backtest",
        "fitting",
        "jobs",
        "history",
    ),
    "training/tables": ("given",),
    "checks": ("judges", "recompute", "compare", "report", "expectations"),
    "lifecycle": (
        "healing",
        "health",
        "history",
        "lineage",
        "registry",
        "models",
        "monitors",
        "pacing",
    ),
    "local": ("airflow", "servers", "monitors"),
    "cli": ("define", "change", "data", "modelling", "operate"),
}
MOST_MODULES = 16
"""In one folder, its door not counted."""

# Third-party packages that only some places may import.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "pyspark": (
        "include/slicewise/spark",
        "include/slicewise/checks",
        "spark_jobs",
        "tests",
        "benchmarks",
    ),
    "redis": ("include/slicewise/stores/online/redis", "tests", "benchmarks"),
    "hiredis": ("include/slicewise/stores/online/redis", "tests", "benchmarks"),
    "great_expectations": ("include/slicewise/checks", "tests"),
    "airflow": ("dags", "plugins", "tests"),
    "confluent_kafka": ("include/slicewise/stores/log", "tests", "benchmarks"),
    "pyiceberg": ("include/slicewise/stores/lake", "tests", "benchmarks"),
    "sklearn": ("include/slicewise/models", "examples", "tests", "benchmarks"),
    "skops": ("include/slicewise/models", "tests", "benchmarks"),
    "onnxruntime": ("include/slicewise/models", "tests", "benchmarks"),
}
# DAG files are parsed every few seconds: nothing heavy at module level.
HEAVY = frozenset(
    {"pyspark", "pyarrow", "pandas", "numpy", "great_expectations", "redis", "pyiceberg", "duckdb"}
)


@dataclass(frozen=True)
class Import:
    """One import statement: the file, its line, the full dotted name, and whether it runs when the
    module is loaded."""

    path: Path
    line: int
    name: str
    at_module_level: bool


def imports_of(path: Path, *, for_types: bool = False) -> tuple[Import, ...]:
    """Every import of a file that runs at some time; with `for_types` those for type checkers alone
    too."""
    facts = facts_of(path)
    return facts.imports_for_types if for_types else facts.imports


@dataclass(frozen=True)
class Facts:
    """Parts of a module's text that many tests ask for; the tree itself would fill the memory."""

    docstring: str
    defined: frozenset[str]
    """Names that it defines at its top."""
    imports: tuple[Import, ...]
    imports_for_types: tuple[Import, ...]


@cache
def facts_of(path: Path) -> Facts:
    """The facts of a file, parsed once in a process."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    every = tuple(_walk(tree, path, at_module_level=True, for_types=False))
    return Facts(
        ast.get_docstring(tree) or "",
        frozenset(_defined(tree)),
        tuple(imported for imported, for_types in every if not for_types),
        tuple(imported for imported, _ in every),
    )


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _walk(
    node: ast.AST, path: Path, at_module_level: bool, *, for_types: bool
) -> Iterator[tuple[Import, bool]]:
    """Imports of a statement, and whether they are for type checkers alone. Expressions have
    none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(path, child.lineno, alias.name, at_module_level), for_types
        elif isinstance(child, ast.ImportFrom):
            for imported in _from(child, path, at_module_level):
                yield imported, for_types
        else:
            inner = at_module_level and not isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef
            )
            checked = isinstance(child, ast.If) and "TYPE_CHECKING" in {
                getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(child.test)
            }
            yield from _walk(child, path, inner, for_types=for_types or checked)


def _from(node: ast.ImportFrom, path: Path, at_module_level: bool) -> Iterator[Import]:
    base = node.module or ""
    if node.level:
        parts = list(path.relative_to(ROOT / "include").with_suffix("").parts)
        parts = parts[: len(parts) - node.level]
        base = ".".join([*parts, *([node.module] if node.module else [])])
    for alias in node.names:
        yield Import(
            path, node.lineno, f"{base}.{alias.name}" if base else alias.name, at_module_level
        )


def part_of(name: str) -> str | None:
    """The part of slicewise that a dotted name lies in: `slicewise.stores.online.redis.wire` ->
    `stores`."""
    pieces = name.split(".")
    if pieces[0] != "slicewise" or len(pieces) < 2:
        return None
    listed = {part for layer in LAYERS for part in layer}
    return pieces[1] if pieces[1] in listed else None


def layer_of(part: str) -> int:
    """The position of a part in the table."""
    return next(i for i, layer in enumerate(LAYERS) if part in layer)


def python_files(*folders: str) -> list[Path]:
    """The project's Python files under the given folders, in a fixed order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
