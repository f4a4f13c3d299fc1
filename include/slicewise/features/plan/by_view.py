"""A view is one row for people, however many units it is stored in; programs get the units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from slicewise.features.plan.explain import Change, Explained

_WORST_FIRST = ("refused", "new", "definition", "removed", "unchanged")
Of = TypeVar("Of", Change, Explained)


def by_view(rows: Iterable[Of]) -> list[tuple[Of, ...]]:
    """Groups the rows by view, views and units in their order."""
    found: dict[str, list[Of]] = {}
    for row in rows:
        found.setdefault(row.view, []).append(row)
    return [tuple(group) for group in found.values()]


def view_changes(changes: Iterable[Change]) -> list[Change]:
    """One change for each view: the gravest kind of its units, with the reasons of all that change."""
    return [_together(group) for group in by_view(changes)]


def _together(group: Sequence[Change]) -> Change:
    ordered = sorted(group, key=lambda each: _WORST_FIRST.index(each.kind))
    changed = [each for each in ordered if each.kind != "unchanged"] or ordered
    reasons = dict.fromkeys(each.reason for each in changed)
    return replace(ordered[0], reason="; ".join(reasons), unit=ordered[0].unit if len(group) == 1 else "")
