"""Names of what the platform deploys for itself; needs nothing, since every environment reads
them."""

from __future__ import annotations

import hashlib

PROJECT = "slicewise.own"
SOURCE = "slicewise_probes"
TOPIC = "slicewise.probes"
VIEW = "slicewise_probes"
REF = f"{VIEW}:seen_5m"
"""The feature that counts a probe's event."""
HISTORY_PARTITION = 0
"""The partition that all rows of a history stand in."""


def history_topic(topic: str, source: str) -> str:
    """Name of the topic of a source's history; no topic of a broker has a slash."""
    return f"{topic}/history/{source}"


def history_id(source: str, until_us: int) -> str:
    """The topic id of a source's history up to an instant."""
    return hashlib.sha256(f"slicewise history {source} {until_us}".encode()).hexdigest()[:32]


def is_history_topic(name: str) -> bool:
    """Tells whether no broker has this topic: it is the name of a source's history."""
    return "/" in name


def is_of_topic(name: str, topic: str) -> bool:
    """Tells whether this is the name of the topic, or of a history beside it."""
    return name == topic or name.startswith(f"{topic}/")
