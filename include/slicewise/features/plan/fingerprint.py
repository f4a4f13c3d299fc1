"""Equal stored bytes have equal storage fingerprints; whatever bears on them is in the text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slicewise.features.rowlogic.expression import canonical

if TYPE_CHECKING:
    from slicewise.features.rowlogic.expression import RowExpression

# Settings of the engines that bear on values; a change of one is a change of every fingerprint.
ENGINE: Mapping[str, Any] = {"ansi": True, "collation": "UTF8_BINARY", "time_zone": "UTC"}


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces, ASCII only; NaN and infinities are refused."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def fingerprint(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()[:16]


def condition_column(condition: RowExpression) -> str:
    """The column of a feature's condition: equal conditions have one, and no name of a user begins
    so."""
    digest = hashlib.sha256(canonical_json(canonical(condition.tree)).encode("ascii")).hexdigest()
    return f"_where_{digest[:32]}"
