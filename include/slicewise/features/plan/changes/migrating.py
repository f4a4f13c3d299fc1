"""The steps that a migration still needs follow from what is deployed, planned and built: so it
goes on wherever it was stopped.

The steps are those of any version: apply, build, diff, promote, retire (docs/adr/0121).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from slicewise.aggregates import Behind
from slicewise.features import own
from slicewise.features.naming import at_version, base_of, version_of
from slicewise.features.plan.build import fingerprinted
from slicewise.features.plan.changes.history import Changed, changed
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.suites import FEATURES
from slicewise.names import unknown

Step = Literal["apply", "build", "diff", "promote", "retire"]
STEPS: tuple[Step, ...] = ("apply", "build", "diff", "promote", "retire")


@dataclass(frozen=True)
class Migration:
    """Migration of a view from its live version to the code's."""

    view: str
    version: str
    """Name of the version that takes the view's."""
    replaced: tuple[str, ...]
    """Name, once it did, of the version that was live before it, and goes."""
    reasons: tuple[str, ...]
    steps: tuple[Step, ...]
    """Steps that are left, in their order."""
    stays: tuple[str, ...] = ()
    """Versions that an earlier code stores too, and that stay readable by their own names."""


def migrations(
    planned: Deployment,
    after: Deployment,
    deployed: Deployment,
    unready: Collection[str],
    views: Sequence[str] = (),
    stood: Sequence[Deployment] = (),
) -> tuple[Migration, ...]:
    """Migrations that are left. planned: the definitions by themselves; after: what `apply` would
    deploy; unready: views whose history is not built; views: by default those of which this code
    stores an aggregate otherwise; stood: all deployments until now, the newest last, which say
    what the live version replaced.

    Raises UnknownName for a view that is not deployed.
    """
    live = [name for name in planned.views if name in deployed.views]
    for name in views:
        if name not in live:
            raise unknown("view", name, dict.fromkeys(live), "slicewise migrate")
    left = (
        _migration(name, planned, after, deployed, unready, bool(views), stood)
        for name in views or live
    )
    return tuple(one for one in left if one is not None)


def _migration(
    view: str,
    planned: Deployment,
    after: Deployment,
    deployed: Deployment,
    unready: Collection[str],
    named: bool,
    stood: Sequence[Deployment],
) -> Migration | None:
    stands = after.live_version("view", view)
    units = {name: after.view(name) for name in after.views if base_of(name) == view}
    old = {name: one for name, of in units.items() if (one := _behind(of))}
    declared = _declared(view, planned, after, units)
    others = tuple(name for name in old if name not in (view, declared))
    if declared != view and (named or view in old):
        steps = STEPS[2:]
        if declared not in deployed.views:
            steps = STEPS
        elif declared in unready:
            steps = STEPS[1:]
        replaced = (at_version(view, stands.live),)
        return Migration(view, declared, replaced, _reasons(old.get(view, ())), steps, others)
    before = _before(view, stands.live, stood)
    if view in old or before not in others:
        return None
    others = tuple(name for name in others if name != before)
    version = at_version(view, stands.live)
    return Migration(view, version, (before,), _reasons(old[before]), ("retire",), others)


def _before(view: str, live: int, stood: Sequence[Deployment]) -> str:
    """Name of the version that was live before the one that is; empty where none was recorded."""
    numbers = (one.live_version("view", view).live for one in reversed(stood) if view in one.views)
    return next((at_version(view, number) for number in numbers if number != live), "")


def beside(
    after: Deployment, deployed: Deployment, plan: Sequence[Migration]
) -> tuple[Changed, ...]:
    """Changes that `apply` would deploy along with these migrations, and that are none of them."""
    if not any("apply" in one.steps for one in plan):
        return ()
    moved = {one.view for one in plan} | {own.VIEW}
    return tuple(
        one for one in changed(after, deployed) if base_of(_view_of(one, after)) not in moved
    )


def _view_of(change: Changed, after: Deployment) -> str:
    """Name of the view that the change is of; empty where it is of none."""
    if change.kind == "expectations":
        return change.name.removeprefix(f"{FEATURES}.")
    if change.kind == "leaderboard":
        of = {one.name: one.view for one in after.leaderboards}
        return of.get(change.name, "")
    return change.name if change.kind == "view" else ""


def _declared(
    view: str,
    planned: Deployment,
    after: Deployment,
    units: Mapping[str, Sequence[StorageUnit]],
) -> str:
    """Name of the version that the definitions are, in what would be deployed."""
    live = after.live_version("view", view).live
    for name, stored in units.items():
        number = version_of(name) or live
        own = {
            fingerprinted(replace(unit, view=name, version=number), after.source(unit.source))
            for unit in planned.view(view)
        }
        if {unit.storage_fingerprint for unit in own} == {
            unit.storage_fingerprint for unit in stored
        }:
            return name
    return view


def _behind(units: Sequence[StorageUnit]) -> tuple[Behind, ...]:
    old = (one for unit in units for part in unit.layout.partials for one in Behind.of(part.spec()))
    return tuple(dict.fromkeys(old))


def _reasons(old: Sequence[Behind]) -> tuple[str, ...]:
    return tuple(
        f"stored by semantic version {one.stored} of {one.kind}, this code has {one.now}; a "
        "version is needed"
        for one in dict.fromkeys(old)
    )
