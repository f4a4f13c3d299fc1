"""The README names only what there is: targets, commands with their options, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slicewise.cli import command_names

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_make_target_of_the_readme_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]+)", README))
    assert {"run", "test", "down", "status", "clean"} <= named
    missing = {target for target in named if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)}
    assert not missing


def test_every_slicewise_command_of_the_readme_exists() -> None:
    named = set(re.findall(r"(?:^|[`/ ])slicewise ([a-z]+)", README, re.MULTILINE))
    named &= set(re.findall(r"slicewise ([a-z]+)(?=[ `\n])", README))
    commands = set(command_names())
    prose = {"keeps", "is"}
    assert {"init", "check", "plan", "apply"} <= named
    assert named - prose <= commands, named - prose - commands


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(README.splitlines()) <= 120


def test_ci_calls_what_the_readme_names() -> None:
    called = set(
        re.findall(
            r"^ *(?:make|step) ([a-z-]+)",
            (ROOT / ".ci" / "run").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    assert {"run", "test", "status", "clean", "check", "lint"} <= called & set(
        re.findall(r"make ([a-z-]+)", README)
    )


@pytest.mark.parametrize("guide", ["local.md", "definitions.md"])
def test_no_output_block_of_a_guide_is_empty(guide: str) -> None:
    page = (ROOT / "docs" / "guides" / guide).read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- output of: ([^\n]+?) -->\n```text\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 1
    assert all(text.strip() for _, text in blocks), [
        command for command, text in blocks if not text.strip()
    ]
    assert f"docs/guides/{guide}" in MAKEFILE, "`make pictures` makes it anew"
