"""The benchmark of accuracy measures every approximate aggregate, and says so where an error is
exceeded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import accuracy
from slicewise.checks.declared import WITHIN


def test_every_approximate_aggregate_is_measured() -> None:
    # the fill of a Bloom filter is what the filter itself says
    assert {case.name for case in accuracy.CASES} == set(WITHIN) - {"bloom_fill"}


@pytest.mark.parametrize("case", accuracy.CASES, ids=lambda case: f"{case.name}-{case.error}")
def test_at_a_thousand_each_keeps_what_it_declares(case: accuracy.Case) -> None:
    line = accuracy.line(case, 1_000, trials=2, seed=7)
    assert line.within, line
    assert line.partial_bytes > 0


def test_an_error_that_is_exceeded_is_seen_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    distinct = accuracy.CASES[0]
    monkeypatch.setattr(
        accuracy, "CASES", (distinct, replace(distinct, name="strict", declared=1e-9))
    )
    monkeypatch.setattr(accuracy, "SIZES", (100, 1_000))
    assert accuracy.main(["--quick", "--json", str(tmp_path / "figures.json")]) == 1
    lines: list[dict[str, Any]] = json.loads((tmp_path / "figures.json").read_text())["lines"]
    assert [(line["aggregate"], line["size"], line["within"]) for line in lines] == [
        ("distinct_count", 100, True),
        ("distinct_count", 1_000, True),
        ("strict", 100, True),  # exact up to its threshold
        ("strict", 1_000, False),
    ]
    assert "NOT WITHIN" in capsys.readouterr().out
