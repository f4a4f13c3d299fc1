"""Scripts of the store: their texts, which Redis runs whole, and the digests that call them.

Doors: PENDING, PENDING_LIST, SCRIPTS.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """One script as Redis loads it."""

    text: bytes
    digest: bytes


def _script(*names: str) -> Script:
    """The text of these files, one after the other, and its digest."""
    text = b"".join((files(__package__) / name).read_bytes() for name in names)
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())


COMPARE_AND_SET = _script("take_pending.lua", "compare_and_set.lua")
MICRO_BATCH = _script("take_pending.lua", "micro_batch.lua")
EVENT_LIST = _script("put_events.lua", "event_list.lua")
LEADERBOARD = _script("leaderboard.lua")
PENDING = _script("pending.lua")
PENDING_LIST = _script("put_events.lua", "pending_list.lua")
SCRIPTS = (COMPARE_AND_SET, MICRO_BATCH, EVENT_LIST, LEADERBOARD, PENDING, PENDING_LIST)
