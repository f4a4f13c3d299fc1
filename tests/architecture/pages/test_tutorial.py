"""The tutorial names only what there is, and is walked in one shell: tests/e2e/test_newcomer.py
walks it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from slicewise.cli import command_names
from slicewise.cli.define.init import FEATURES
from tests.support.pages import page_script

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
walk = page_script("walk")
STEPS = list(walk.steps(PAGE))


def test_every_command_of_the_tutorial_exists() -> None:
    typed = "\n".join(step.commands for step in STEPS)
    named = set(re.findall(r"slicewise ([a-z]+)", typed))
    assert {"init", "check", "up", "apply", "env", "dataset"} <= named
    assert named <= set(command_names())
    mentioned = set(re.findall(r"`slicewise ([a-z]+)", PAGE))
    assert mentioned <= set(command_names())


def test_the_producer_has_ten_lines_and_all_files_compile() -> None:
    files = {step.file: step.text for step in STEPS if step.file}
    assert set(files) == {"produce.py", "ask.py"}
    for name, text in files.items():
        compile(text, name, "exec")
    assert len(files["produce.py"].splitlines()) <= 10
    assert "plays" in files["produce.py"]
    assert 'KafkaSource(\n    "plays"' in FEATURES, "what init writes reads the producer's topic"


def test_all_that_is_typed_stands_in_a_step() -> None:
    assert PAGE.count("```sh") == sum(bool(step.commands) for step in STEPS)
    assert PAGE.count("<!-- prints") == sum(step.output is not None for step in STEPS)
    assert all(step.output.strip() for step in STEPS if step.output is not None)


def test_folders_and_variables_stay_from_one_block_to_the_next(tmp_path: Path) -> None:
    shell = walk.Shell(tmp_path, walk.reader_env(dict(os.environ)))
    shell.type("mkdir 'a b'\ncd 'a b'\nexport NAME=\"one two\"")
    shell.write("x.txt", "$NAME\n")
    assert shell.type('pwd; echo "$NAME"; cat x.txt').splitlines() == [
        str(tmp_path / "a b"),
        "one two",
        "$NAME",
    ]
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        shell.type("echo said\n(exit 3)\necho never")
    assert shell.type("pwd").strip() == str(tmp_path / "a b"), "what failed changed nothing"


def test_a_walk_puts_what_is_printed_into_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = (
        "```sh\necho a; echo b >&2\n```\n<!-- prints -->\n```text\nold\n```\n<!-- end "
        "-->\n\n```sh\ntrue\n```\nend\n"
    )
    assert walk.walked(page, tmp_path) == page.replace("old\n", "a\nb\n")
    assert "echo a" in capfd.readouterr().out
