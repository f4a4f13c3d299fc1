"""A view is one row for people, however many units it is stored in; programs get the units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from slicewise.features.plan.changes.explain import Change, Explained

_WORST_FIRST = ("refused", "new", "definition", "removed", "unchanged")
Of = TypeVar("Of", Change, Explained)


def by_view(rows: Iterable[Of]) -> list[tuple[Of, ...]]:
    """Groups the rows by view, views and units in their order."""
    views: dict[str, list[Of]] = {}
    for row in rows:
        views.setdefault(row.view, []).append(row)
    return [tuple(group) for group in views.values()]


def view_changes(changes: Iterable[Change]) -> list[Change]:
    """One change for each view: the gravest kind of its units, with the reasons of all that
    change."""
    return [_together(group) for group in by_view(changes)]


def _together(group: Sequence[Change]) -> Change:
    ordered = sorted(group, key=lambda change: _WORST_FIRST.index(change.kind))
    changed = [change for change in ordered if change.kind != "unchanged"] or ordered
    reasons = dict.fromkeys(change.reason for change in changed)
    return replace(
        ordered[0], reason="; ".join(reasons), unit=ordered[0].unit if len(group) == 1 else ""
    )
