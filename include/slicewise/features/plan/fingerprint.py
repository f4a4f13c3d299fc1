"""Equal stored bytes have equal storage fingerprints; whatever bears on them is in the text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slicewise.aggregates.kernel.hashing import SEED
from slicewise.codec import CODEC_VERSION, MEMBERS_VERSION
from slicewise.features.rowlogic.expression import ROW_LOGIC_VERSION, canonical
from slicewise.features.schema.dedupe import STEP_BACK_US
from slicewise.windows.window import Window

if TYPE_CHECKING:
    from slicewise.features.plan.unit import PlannedFeature, Source, StorageUnit
    from slicewise.features.rowlogic.expression import RowExpression
    from slicewise.features.schema.dedupe import EventIds

# Settings of the engines that bear on values; a change of one is a change of every fingerprint.
ENGINE: Mapping[str, Any] = {"ansi": True, "collation": "UTF8_BINARY", "time_zone": "UTC"}


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces, ASCII only; NaN and infinities are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def fingerprint(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()[:16]


def condition_column(condition: RowExpression) -> str:
    """The column of a feature's condition: equal conditions have one, and no name of a user begins so."""
    digest = hashlib.sha256(canonical_json(canonical(condition.tree)).encode("ascii")).hexdigest()
    return f"_where_{digest[:32]}"


def storage_payload(unit: StorageUnit, source: Source) -> dict[str, Any]:
    """The content that the storage fingerprint of a unit covers; docs/format.md, "Fingerprints"."""
    # a float's values are other ones than a double's; the range of an integer only judges records
    types = dict(source.columns) | {name: kind for name, kind in source.wire if "float" in kind}
    paths = {name: list(path) for name, path in source.paths if name in unit.reads}
    common = {
        "codec": CODEC_VERSION,
        "columns": {name: types[name] for name in unit.reads},
        "engine": dict(ENGINE),
        "entity": [list(column) for column in unit.entity],
        "event_time": [source.timestamp, source.time_form],
        "row_logic": {
            "version": ROW_LOGIC_VERSION,
            "where": None if unit.where is None else canonical(unit.where.tree),
            "columns": {name: canonical(column.tree) for name, column in unit.columns},
            **({"functions": {name: each.stored() for name, each in unit.functions}} if unit.functions else {}),
        },
        "source": source.name,
        "spread": unit.spread,
        **({"paths": paths} if paths else {}),
        **({"dedupe": _dedupe(unit.dedupe)} if unit.dedupe is not None else {}),
    }
    if unit.event_list is not None:  # of no view, no window and no aggregate: whoever reads these columns shares it
        return {**common, "events": {"columns": [list(each) for each in unit.input_types], "version": MEMBERS_VERSION}}
    return {
        **common,
        **({"lifetime": True} if unit.lifetime else {}),
        "partials": [json.loads(partial.partial_id()) for partial in unit.layout.partials],
        "slice_us": unit.slice_us,
        "view": unit.view,
    }


def _dedupe(ids: EventIds) -> dict[str, Any]:
    return {
        "column": ids.column,
        "most": ids.most,
        "seed": SEED,
        "step_back_us": STEP_BACK_US,
        "within_us": ids.within_us,
    }


def definition_payload(unit: StorageUnit) -> dict[str, Any]:
    """The content that the definition fingerprint of a unit covers: the features over what is stored."""
    return {
        "storage": unit.storage_fingerprint,
        "features": [
            {
                "column": feature.column,
                "aggregate": feature.aggregate.meaning(),
                "window": _window(feature.window),
            }
            for feature in sorted(unit.features, key=lambda feature: feature.column)
        ],
    }


def board_payload(unit: StorageUnit, feature: PlannedFeature, k: int, every_us: int) -> dict[str, Any]:
    """The content that the fingerprint of a leaderboard covers: what its rows mean."""
    return {
        "storage": unit.storage_fingerprint,
        "aggregate": feature.aggregate.meaning(),
        "window": _window(feature.window),
        "k": k,
        "every_us": every_us,
    }


def _window(window: Window) -> dict[str, Any]:
    stored = window.stored()
    names = ["kind", "length_us", "hop_us", "open", *(("closed", "rows") if window.by_events else ())]
    # These only where there is one, so that what is deployed without keeps its fingerprint.
    names += [name for name in ("offset_us", "gap_us") if stored[name]]
    return {name: stored[name] for name in names}
