"""The README names only what there is: targets, commands with their options, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slicewise.cli import command_names

ROOT = Path(__file__).resolve().parents[2]
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
    known = set(command_names())
    prose = {"keeps", "is"}
    assert {"init", "check", "plan", "apply"} <= named
    assert named - prose <= known, named - prose - known


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README))))
def test_every_file_that_the_readme_links_to_exists(target: str) -> None:
    assert (ROOT / target).exists()


def test_no_output_block_of_the_readme_is_empty() -> None:
    blocks = re.findall(r"<!-- output of: ([^\n]+?) -->\n```text\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 2
    assert all(text.strip() for _, text in blocks), [command for command, text in blocks if not text.strip()]
