"""A command that is killed before one of the steps by which it changes files."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = """
import os, signal, sys
folder, last = sys.argv[1], int(sys.argv[2])
taken = 0

def step(event, given):
    global taken
    if event == "open":
        path, mode, flags = given
        changes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))
    else:
        path, changes = given[0], event in ("os.rename", "os.remove")
    if changes and isinstance(path, (str, bytes, os.PathLike)):
        if os.fsdecode(path).startswith(folder):
            taken += 1
            if taken > last:
                os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(step)
from slicewise.cli import main
sys.exit(main(sys.argv[3:]))
"""


def killed_after(
    steps: int, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> bool:
    """Runs `slicewise …`, which gets SIGKILL after so many steps that change files of the folder;
    False where it ended by itself before. Fails where it ended with an error."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, f"{folder}/", str(steps), *arguments],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        return True
    assert done.returncode == 0, done.stderr[-3_000:]
    return False
