"""The store says which deployments stood, who deployed each and when, until the archive has them.

A part of the status (`sw:status:registered`), beside the manifests, which no sweep removes. The
hourly compaction enters what is new into `ops.deployments`, where it is kept for good.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

PART = "registered"
MOST = 200
"""Newest ones that the store says; far more than are deployed between two compactions."""


@dataclass(frozen=True)
class Registered:
    """A deployment that somebody made."""

    store_id: int
    """`StoreMetadata.set_or_store_id`: versions count anew in another."""
    version: int
    digest: str
    """Digest of its manifest."""
    at_us: int
    """Time of it by the clock of who deployed."""
    by: str = ""
    """Person or program that deployed it; empty where nobody said."""
    how: str = ""
    """Command: apply or rollback; empty where nobody said."""

    @property
    def order(self) -> tuple[int, int]:
        """Sorts by the order in which they stood: store ids are times of the store."""
        return self.store_id, self.version


def registered_of(text: str | None) -> tuple[Registered, ...]:
    """Deployments of a text, oldest first; none where it cannot be read: it decides nothing."""
    try:
        read = [Registered(**raw) for raw in json.loads(text or "[]")]
        return tuple(sorted(read, key=lambda one: one.order))
    except (ValueError, TypeError, AttributeError):
        return ()


def added(text: str | None, one: Registered) -> str:
    """The text with this one too."""
    others = [other for other in registered_of(text) if other.order != one.order]
    newest = sorted([*others, one], key=lambda other: other.order)[-MOST:]
    return json.dumps([asdict(other) for other in newest], sort_keys=True)
