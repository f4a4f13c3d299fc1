"""Tests have one stand-in for a planned unit: what a unit must be is written down once beside the
real one."""

from __future__ import annotations

import ast

from tests.architecture.import_table import ROOT, python_files


def test_one_class_of_the_tests_stands_for_a_unit() -> None:
    doubles = [
        f"{path.relative_to(ROOT).as_posix()}: {node.name}"
        for path in python_files("tests", "benchmarks")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(part, ast.AnnAssign) and ast.unparse(part.target) == "storage_fingerprint"
            for part in node.body
        )
    ]
    assert doubles == ["tests/support/stores/units.py: StoreUnit"]
