"""Progress is bars on a terminal and lines elsewhere; what goes to a file is the same in both."""

from __future__ import annotations

import codecs
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from slicewise.cli.bars import bars
from slicewise.log import Progress
with bars(lambda line: print(line, flush=True), wanted=sys.argv[1] == "bars") as notify:
    notify("loading")
    for done in (10, 4000):
        notify(Progress(f"{4000 - done} of 4,000 to go", "events [applied]", done, 4000))
        time.sleep(0.3)
    notify("over")
"""
LINES = "loading\n3990 of 4,000 to go\n0 of 4,000 to go\nover\n"


def run(wanted: str, *, terminal: bool) -> tuple[str, str]:
    """Runs the program; its output on stdout, a pipe, and on stderr."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, wanted],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(INCLUDE)},
    ) as process:
        os.close(theirs)
        written = "".join(pieces(ours))
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    return out, written


def pieces(end: int) -> Iterator[str]:
    """All that is written to the other end; a terminal gives a few kB at once."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        try:
            piece = os.read(end, 100_000)
        except OSError:  # so ends a terminal that nobody holds any more
            return
        if not piece:
            return
        yield decoder.decode(piece)


INCLUDE = Path(__file__).resolve().parents[3] / "include"


@pytest.mark.parametrize(("wanted", "terminal"), [("bars", False), ("no", False), ("no", True)])
def test_lines_where_there_is_no_terminal_or_a_program_reads(wanted: str, terminal: bool) -> None:
    assert run(wanted, terminal=terminal) == (LINES, "")


def test_a_bar_on_a_terminal_and_the_other_lines_where_they_went() -> None:
    out, shown = run("bars", terminal=True)
    assert out == "loading\nover\n"
    assert "events [applied]" in shown
    assert "4,000 of 4,000" in shown
    assert "to go" not in shown
