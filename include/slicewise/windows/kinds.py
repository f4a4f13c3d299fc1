"""Every kind of window, and what a definition may give for one."""

from __future__ import annotations

from slicewise.windows.exact_range import ExactRange
from slicewise.windows.hopping import Hopping
from slicewise.windows.lifetime import LIFETIME, Lifetime, lifetime
from slicewise.windows.rows import Rows
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding, sliding
from slicewise.windows.tumbling import Tumbling
from slicewise.windows.window import Window

KINDS: tuple[type[Window], ...] = (Sliding, Tumbling, Hopping, Session, ExactRange, Rows, Lifetime)
"""Kinds of windows that there are."""


def as_window(window: str | Window) -> Window:
    """A window from what a definition may give: a duration is a sliding window, "lifetime" all
    events."""
    if window == LIFETIME:
        return lifetime()
    return window if isinstance(window, Window) else sliding(window)
