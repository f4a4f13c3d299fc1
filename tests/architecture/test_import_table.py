"""The import table holds: left may be imported by right, never back, and some packages live in one
place only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.import_table import (
    ALLOWED_BETWEEN_SIBLINGS,
    HEAVY,
    LAYERS,
    ONLY_IN,
    PACKAGE,
    ROOT,
    SIBLINGS,
    imports_of,
    layer_of,
    part_of,
    python_files,
)


def _own_part(path: Path) -> str | None:
    relative = path.relative_to(PACKAGE)
    return part_of("slicewise." + relative.with_suffix("").as_posix().replace("/", "."))


def breaks_table(own: str, other: str) -> bool:
    """Tells whether a module of part `own` may not import a module of part `other`."""
    if own == other:
        return False
    if own in SIBLINGS and other in SIBLINGS:
        return (own, other) not in ALLOWED_BETWEEN_SIBLINGS
    return layer_of(other) > layer_of(own)


def test_every_part_of_the_package_stands_in_the_table() -> None:
    unknown = sorted(
        path.name
        for path in PACKAGE.iterdir()
        if path.name not in {"__init__.py", "__pycache__", "py.typed", "__main__.py", "jvm"}
        and _own_part(path) is None
    )
    assert not unknown, f"parts without a layer: {unknown}"


def test_left_is_imported_by_right_and_never_back() -> None:
    broken = [
        f"{imported.path.relative_to(ROOT)}:{imported.line} imports {imported.name}"
        for path in python_files("include/slicewise")
        if (own := _own_part(path)) is not None
        for imported in imports_of(path)
        if (other := part_of(imported.name)) is not None and breaks_table(own, other)
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_package_is_imported_only_where_the_table_says(package: str) -> None:
    allowed = tuple(ROOT / allowed_path for allowed_path in ONLY_IN[package])
    broken = [
        f"{imported.path.relative_to(ROOT)}:{imported.line} imports {imported.name}"
        for path in python_files(
            "include", "dags", "plugins", "spark_jobs", "benchmarks", "examples"
        )
        if not any(path.is_relative_to(allowed_path) for allowed_path in allowed)
        for imported in imports_of(path)
        if imported.name.split(".")[0] == package
    ]
    assert not broken, "\n".join(broken)


def test_dag_files_import_nothing_heavy_at_module_level() -> None:
    broken = [
        f"{imported.path.relative_to(ROOT)}:{imported.line} imports {imported.name}"
        for path in python_files("dags", "plugins")
        for imported in imports_of(path)
        if imported.at_module_level and imported.name.split(".")[0] in HEAVY
    ]
    assert not broken, "\n".join(broken)


def test_nobody_touches_the_module_search_path() -> None:
    # The light Spark daemon takes archives OFF the path of its own process, which is its purpose.
    exempt = {PACKAGE / "spark" / "runtime" / "daemon.py"}
    broken = [
        str(path.relative_to(ROOT))
        for path in python_files(
            "include", "dags", "plugins", "spark_jobs", "benchmarks", "tests", "examples"
        )
        if path not in exempt and path != Path(__file__).resolve()
        if "sys.path" in path.read_text(encoding="utf-8")
    ]
    assert not broken, "\n".join(broken)


def test_the_table_refuses_an_import_from_the_right() -> None:
    assert breaks_table("windows", "features")
    assert breaks_table("serving", "training")
    assert not breaks_table("serving", "stores")
    assert len({part for layer in LAYERS for part in layer}) == sum(len(layer) for layer in LAYERS)
