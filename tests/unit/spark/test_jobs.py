"""A job's entry point hands over what it says its work imports: what is only listed is imported
late."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

JOBS = sorted((Path(__file__).resolve().parents[3] / "spark_jobs").glob("*.py"))


@pytest.mark.parametrize("job", JOBS, ids=lambda path: path.stem)
def test_every_constant_of_an_entry_point_is_used(job: Path) -> None:
    tree = ast.parse(job.read_text(encoding="utf-8"))
    targets = [
        target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
    ]
    constants = {target.id for target in targets if isinstance(target, ast.Name)}
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    assert constants - used == set()
