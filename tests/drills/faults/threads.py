"""Single threads of a process stand still while the others go on: what waits for ever, as for a
lock or a disk, looks like that.

They are stopped by the kernel's ptrace, from a process of its own; they go on when that ends, or is
told to end.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slicewise.local.servers.process import Birth

TASKS = "Executor task l"
"""Name of a JVM's threads that run Spark's tasks, as far as the kernel keeps it."""
_SEIZE, _INTERRUPT = 0x4206, 0x4207
_WALL = 0x40000000
_READY = "stopped"


def tasks_of(tree: Sequence[Birth]) -> list[int]:
    """Threads that run Spark's tasks, of a driver and all below it."""
    return [thread for process in tree for name, thread in _named(process.pid) if name == TASKS]


def others_of(process: Birth) -> list[int]:
    """Threads of a Python process beside its first; those of libraries have names of their own."""
    named = _named(process.pid)
    own = next((name for name, thread in named if thread == process.pid), None)
    return [thread for name, thread in named if name == own and thread != process.pid]


def _named(pid: int) -> list[tuple[str, int]]:
    names = []
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        try:
            names.append(((folder / "comm").read_text().rstrip("\n"), int(folder.name)))
        except OSError:
            continue  # it has ended
    return names


@contextmanager
def stopped(threads: Sequence[int]) -> Iterator[None]:
    """Stops these threads meanwhile, as long as they live."""
    assert threads, "there is no such thread"
    argv = [sys.executable, "-m", __name__, *map(str, threads)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        try:
            assert tracer.stdout.readline().strip() == _READY, (
                "threads cannot be stopped here: a process needs the right to trace another"
            )
            yield
        finally:
            tracer.kill()


def main(threads: Sequence[int]) -> int:
    """Stops the threads until it is killed, or all of them have ended."""
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = [ctypes.c_long] * 4
    library.ptrace.restype = ctypes.c_long
    for thread in threads:
        for request in (_SEIZE, _INTERRUPT):
            if library.ptrace(request, thread, 0, 0):
                print(os.strerror(ctypes.get_errno()), flush=True)
                return 1
        os.waitpid(thread, _WALL)
    print(_READY, flush=True)
    try:
        while True:  # one that was killed is gone once its tracer knows
            os.waitpid(-1, _WALL)
    except ChildProcessError:
        return 0


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
