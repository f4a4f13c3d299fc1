"""A folder of files in between is there as long as the process that made it."""

from __future__ import annotations

import fcntl
import os
import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp

_LOCK = ".lock"


class Scratch:
    """A folder that is gone when nobody holds this any more, or with the process."""

    def __init__(self, parent: Path) -> None:
        """Makes it; folders of processes that were killed are removed: nobody holds their lock."""
        parent.mkdir(parents=True, exist_ok=True)
        with (parent / _LOCK).open("wb") as every:
            fcntl.flock(every, fcntl.LOCK_EX)
            for left in parent.iterdir():
                if left.is_dir() and (lock := _locked(left)) is not None:
                    shutil.rmtree(left, ignore_errors=True)
                    os.close(lock)
            self.path = Path(mkdtemp(dir=parent))
            lock = _locked(self.path)
        assert lock is not None
        self.remove = weakref.finalize(self, _remove, self.path, lock)


def _locked(folder: Path) -> int | None:
    """The lock of a folder, whose holder lives; None where another process holds it."""
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
