"""Tests have one stand-in for a planned unit: what a unit must be is written down once beside the
real one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.import_table import ROOT, python_files

FIELD = "storage_fingerprint"


def classes_with(text: str) -> Iterator[str]:
    """Names of the classes in which the field is declared."""
    for node in ast.walk(ast.parse(text)) if FIELD in text else ():
        if isinstance(node, ast.ClassDef) and any(
            isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == FIELD
            for part in node.body
        ):
            yield node.name


def test_one_class_of_the_tests_stands_for_a_unit() -> None:
    doubles = [
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in python_files("tests", "benchmarks")
        for name in classes_with(path.read_text(encoding="utf-8"))
    ]
    assert doubles == ["tests/support/stores/units.py: StoreUnit"]
