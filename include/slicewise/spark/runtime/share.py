"""A process gives way by its session: Linux weighs sessions, and `nice` says nothing between them.

A process that the platform starts leads a session of its own (`local.process.spawn`), and Linux
gives each session an equal part of the processor (sched(7), "The autogroup feature"). A session's
part can be made smaller and equal again without any right. Where there are no autogroups, or the
session is shared, nothing changes (docs/adr/0067).
"""

from __future__ import annotations

import os
from pathlib import Path

EQUAL, AFTER_OTHERS = 0, 15
"""Weights of a session, as `nice` counts: 15 weighs 36 where 0 weighs 1,024 (sched(7))."""
AUTOGROUP = Path("/proc/self/autogroup")


class Share:
    """The part of the processor that this session gets where it is short."""

    def __init__(self, file: Path = AUTOGROUP, *, own: bool | None = None) -> None:
        """own: whether the session is this process's alone, so that nobody else's part is changed;
        None: asked."""
        self._file = file
        self._own = os.getsid(0) == os.getpid() if own is None else own
        self._given = False

    def give_way(self, wanted: bool) -> None:
        """Sets whether others that want the processor get it first, from now on."""
        if wanted == self._given or not self._own:
            return
        try:
            with self._file.open("r+") as autogroup:  # it is never made
                autogroup.write(str(AFTER_OTHERS if wanted else EQUAL))
        except OSError:
            return  # none here, or changed a moment ago: the next call asks again
        self._given = wanted
