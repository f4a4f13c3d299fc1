"""Values that depend on where events stand in the total order: the rows come sorted by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.checks.judges import Row, judge


def _present(rows: Sequence[Row], spec: Mapping[str, Any]) -> list[Any]:
    """The values that are not null, earliest first."""
    values = [row.values[spec["column"]] for row in rows]
    return [value for value in values if value is not None]


@judge("first")
def first(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The earliest value."""
    return next(iter(_present(rows, spec)), None)


@judge("last")
def last(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The latest value."""
    return next(reversed(_present(rows, spec)), None)


@judge("first_k")
def first_k(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The k earliest values."""
    return _present(rows, spec)[: spec["k"]] or None


@judge("last_k_distinct")
def last_k_distinct(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The k values that were met last, each once."""
    # A dictionary keeps the order in which its keys came: here the newest first.
    return list(dict.fromkeys(reversed(_present(rows, spec))))[: spec["k"]] or None


@judge("ordered")
def ordered(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The fold, by the functions of the definition."""
    return ordered_value(rows, spec)[0]


def ordered_value(rows: Sequence[Row], spec: Mapping[str, Any]) -> tuple[Any, bool]:
    """The value, and whether it is null for an error."""
    events = [{name: row.values[name] for name in spec["columns"]} for row in rows]
    if spec["policy"] == "newest":
        events = events[-spec["cap"] :]
    if len(events) > spec["cap"]:
        return None, True
    if not events:
        return None, False
    functions: dict[str, Any] = {}
    exec(spec["source"], functions)
    try:
        state = functions[spec["init"]]()
        for event in events:
            state = functions[spec["step"]](state, event)
        value = functions[spec["final"]](state)
    except Exception:  # noqa: BLE001
        return None, True
    if value is None:
        return None, False
    kinds = {"long": (int,), "double": (float, int), "boolean": (bool,), "string": (str,)}[
        spec["output"]
    ]
    if type(value) not in kinds or (spec["output"] == "long" and not -(2**63) <= value < 2**63):
        return None, True
    return (float(value) + 0.0 if spec["output"] == "double" else value), False
