"""A feature's columns of events follow from its definition alone: from the deployed JSON, which
every environment can read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_NAMING = ("column", "by", "payload", "x", "y", "over", "columns")
"""Parameters of aggregates that name columns. A test holds them against all that are registered."""

RawUnit = Mapping[str, Any]
"""A storage unit of a deployment's JSON."""


def named_by(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns that an aggregate reads, by its kind and parameters."""
    names: dict[str, None] = {}
    if "aggregate" in spec:
        names |= dict.fromkeys(named_by(spec["aggregate"]))
    for parameter in _NAMING:
        given = spec.get(parameter)
        names |= dict.fromkeys(
            name for name in (given if isinstance(given, list) else [given]) if name
        )
    return tuple(names)


def event_columns(unit: RawUnit, spec: Mapping[str, Any]) -> frozenset[str]:
    """Columns of the source that an aggregate's values are made of: computed ones are followed to
    what they are computed from."""
    return _traced(unit, named_by(spec))


def chosen_by(unit: RawUnit) -> frozenset[str]:
    """Columns of the source that decide which events a unit counts, as its `where` reads them."""
    return frozenset() if unit["where"] is None else _of_tree(unit["where"]["tree"])


def _traced(unit: RawUnit, names: Collection[str]) -> frozenset[str]:
    computed = {name: expression["tree"] for name, expression in unit["columns"]}
    functions = {name: function["reads"] for name, function in unit.get("functions", ())}
    traced: set[str] = set()
    for name in names:
        if name in functions:
            traced |= _traced({**unit, "functions": ()}, functions[name])
        elif name in computed:
            traced |= _of_tree(computed[name])
        else:
            traced.add(name)
    return frozenset(traced)


def _of_tree(tree: Any) -> frozenset[str]:
    """Columns in a tree of row logic: nested lists, in which a column is ["column", name, kind]."""
    if not isinstance(tree, list):
        return frozenset()
    if tree[:1] == ["column"] and len(tree) == 3:
        return frozenset({str(tree[1])})
    return frozenset().union(*map(_of_tree, tree))
