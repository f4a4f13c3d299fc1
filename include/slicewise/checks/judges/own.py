"""Answers of a user's class by its text alone: event after event, in the total order, never
combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.checks.judges import Row, judge

_ANSWERS: Mapping[str, tuple[type, ...]] = {
    "long": (int,),
    "double": (float, int),
    "boolean": (bool,),
    "string": (str,),
}


class _Aggregate:
    """Stands where the text names what it derives from."""


class _Namespace:
    Aggregate = _Aggregate


@judge("own")
def own(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """The value of the class over the rows that have all of its columns."""
    return taken(rows, spec)[0]


def taken(rows: Sequence[Row], spec: Mapping[str, Any]) -> tuple[Any, bool]:
    """The value, and whether it is null for an error."""
    space: dict[str, Any] = {"sw": _Namespace, "slicewise": _Namespace, "Aggregate": _Aggregate}
    exec("from __future__ import annotations\n" + spec["source"], space)
    (made,) = (
        member()
        for member in space.values()
        if isinstance(member, type) and _Aggregate in member.__bases__
    )
    for name, value in spec["parameters"].items():
        setattr(made, name, value)
    columns = dict(zip(made.columns, spec["columns"], strict=True))
    whole = [row for row in rows if all(row.values[name] is not None for name in columns.values())]
    if not whole:
        return None, False
    longs = [at for at, kind in enumerate(made.fields.values()) if kind == "long"]
    try:
        state = made.empty()
        for row in whole:
            state = made.accumulate(
                state, {role: row.values[name] for role, name in columns.items()}
            )
            if not all(-(2**63) <= state[at] < 2**63 for at in longs):
                return None, True
        value = made.finish(state)
    except Exception:  # noqa: BLE001
        return None, True
    if value is None:
        return None, False
    if type(value) not in _ANSWERS[made.output] or (
        made.output == "long" and not -(2**63) <= value < 2**63
    ):
        return None, True
    return (float(value) + 0.0 if made.output == "double" else value), False
