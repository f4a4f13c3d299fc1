"""Processor time of commands, with all that they start: a JVM outlives the driver that started
it, and nobody waits for it."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Spent:
    """Seconds on the clock until the commands ended, and processor seconds of all their
    processes."""

    elapsed_s: float = 0.0
    processor_s: float = 0.0


@contextmanager
def spent() -> Iterator[Spent]:
    """Counts the commands that are run within, and waits for what they left running."""
    before = {child.pid for child in psutil.Process().children()}
    _adopt(on=True)
    used, took, begun = _of_children(), Spent(), time.perf_counter()
    try:
        yield took
        took.elapsed_s = time.perf_counter() - begun
    finally:
        for child in psutil.Process().children():
            if child.pid not in before:
                os.waitpid(child.pid, 0)
        _adopt(on=False)
        took.processor_s = _of_children() - used


def _adopt(*, on: bool) -> None:
    """Makes this process the parent of what a child of its leaves behind (see prctl(2))."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
