"""Aggregates of a user's own: the text of a class, what it may do, and what it stores.

Doors: Own, functions, raised.
"""

from __future__ import annotations

from slicewise.aggregates.custom.folding import Ordered
from slicewise.aggregates.custom.own import Own

__all__ = ["Ordered", "Own"]
