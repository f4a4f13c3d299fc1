"""Training sets: what was known, rebuilt with the bits that were served.

Doors: training_set, evaluate, query_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slicewise.training.api import snapshot as snapshot
    from slicewise.training.api import training_set as training_set


def __getattr__(name: str) -> Any:
    if name not in ("snapshot", "training_set"):  # loaded when used: evaluate needs none of it
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from slicewise.training import api

    return getattr(api, name)
