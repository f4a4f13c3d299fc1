"""The cost of a plan, and of a change of it, is said before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from slicewise.aggregates.kernel.values import is_text
from slicewise.codec import SEAL_BYTES
from slicewise.errors import DefinitionError
from slicewise.features.naming import at_version, base_of, version_of
from slicewise.features.plan.build import fingerprinted
from slicewise.features.plan.changes.costs import (
    ANY,
    MEMBER_OVERHEAD,
    TEXT_BYTES,
    entity_bytes,
    most_row_bytes,
    reads_per_request,
)
from slicewise.features.plan.changes.costs import NUMBER as NUMBER
from slicewise.features.plan.changes.costs import row_bytes as row_bytes
from slicewise.features.plan.changes.description import Description as Description
from slicewise.features.plan.changes.description import descriptions as descriptions
from slicewise.features.plan.changes.description import matching as matching
from slicewise.features.plan.changes.differences import differences
from slicewise.features.plan.changes.history import Changed as Changed
from slicewise.features.plan.changes.history import Stood as Stood
from slicewise.features.plan.changes.history import Version as Version
from slicewise.features.plan.changes.history import changed as changed
from slicewise.features.plan.changes.history import definition_differences
from slicewise.features.plan.changes.history import versions as versions
from slicewise.features.plan.changes.reads import WindowReads, window_reads
from slicewise.features.plan.changes.schema_change import refusals, reread, schema_changes
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import (
    ListUnit,
    SliceUnit,
    Source,
    StorageUnit,
    nearest,
    offsets_to_json,
)
from slicewise.features.schema.types import arrow_type
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import format_duration, format_span

SIZES = f"sizes are bounds, with texts of {TEXT_BYTES} bytes"
ChangeKind = Literal["unchanged", "new", "definition", "refused", "removed"]


@dataclass(frozen=True)
class Change:
    """Effect of a deployment on a view. reason: what differs, or what the change costs."""

    view: str
    kind: ChangeKind
    reason: str
    unit: str = ""


@dataclass(frozen=True)
class Explained:
    """One unit of a plan. Sizes in bytes, a text of TEXT_BYTES bytes.

    bytes_per_row: one partial row whose lists and sketches are empty; most_bytes_per_row: of a day
    (of a lifetime: of all its events), as full as parameters let it be. bytes_per_entity: of an
    entity with events in all slices that are kept and every row full; where the rate of its events
    is given, of as many slices as these can be in, and as full as they can make them. five-day
    totals: whether totals of five days are kept, for windows of ten days and more.
    reads_per_request: fields of Redis that a live read of all its features takes, at most, besides
    the hot hash (read whole); reads: of each window alone, by level.
    """

    view: str
    unit: str
    definition: str
    entity: str
    slice: str
    levels: tuple[str, ...]
    pentads: bool
    retention: str
    features: int
    partials: tuple[str, ...]
    bytes_per_row: int
    most_bytes_per_row: int
    bytes_per_entity: int
    reads_per_request: int
    reads: tuple[WindowReads, ...]
    change: Change

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def explain(
    new: Deployment, deployed: Deployment | None = None, events_per_hour: float | None = None
) -> list[Explained]:
    """One row per unit, against what is deployed (None: nothing). events_per_hour: of one entity
    (None: any number)."""
    by_unit = {(change.view, change.unit): change for change in changes(new, deployed)}
    return [
        _explained(unit, by_unit[unit.view, unit.storage_fingerprint], events_per_hour)
        for unit in new.units
    ]


def changes(new: Deployment, deployed: Deployment | None) -> tuple[Change, ...]:
    """Tells what deploying `new` does to every view and unit, removed views included.

    A unit that changes under the name of a deployed view is refused: its partials could not answer
    what is deployed. `joined` makes it one of the view's next version.
    """
    if deployed is None:
        deployed = Deployment(new.project, (), (), ())
    unit_changes = [change_of(unit, new, deployed) for unit in new.units]
    stands = {(base_of(unit.view), unit.version) for unit in new.units}
    gone = dict.fromkeys(
        at_version(base_of(unit.view), unit.version) if unit.view in new.views else unit.view
        for unit in deployed.declared.units
        if (base_of(unit.view), unit.version) not in stands
    )
    return (
        *unit_changes,
        *(Change(view, "removed", "no longer served; what it stored is swept") for view in gone),
    )


def leaderboard_changes(new: Deployment, deployed: Deployment | None) -> tuple[Change, ...]:
    """Tells what deploying `new` does to every leaderboard, removed ones included; none of it costs
    what is stored."""
    old = (
        {}
        if deployed is None
        else {leaderboard.name: leaderboard for leaderboard in deployed.leaderboards}
    )
    per_leaderboard = []
    for leaderboard in new.leaderboards:
        before, what = (
            old.pop(leaderboard.name, None),
            f"the {leaderboard.k} with the highest {leaderboard.ref}",
        )
        if before is None:
            per_leaderboard.append(
                Change(
                    leaderboard.name,
                    "new",
                    f"{what}, every {format_duration(leaderboard.every_us)} from now on",
                )
            )
        elif before == leaderboard:
            assert deployed is not None
            reason = "; ".join(
                definition_differences("leaderboard", leaderboard.name, new, deployed)
            )
            per_leaderboard.append(Change(leaderboard.name, "unchanged", reason or "nothing to do"))
        else:
            again = ": its rows begin anew" if before.fingerprint != leaderboard.fingerprint else ""
            per_leaderboard.append(Change(leaderboard.name, "definition", what + again))
    return (*per_leaderboard, *(Change(name, "removed", "no longer served") for name in old))


def published(deployment: Deployment) -> tuple[tuple[str, str], ...]:
    """Names of the views with `emit=`, and what each publishes where and when, and holds in memory
    for it."""
    topics = []
    for unit in deployment.units:
        if not isinstance(unit, SliceUnit) or unit.emission is None:
            continue
        if version_of(unit.view) is not None:
            continue  # published once it is live
        features = unit.emitted_features
        if not features:
            continue
        ends = {
            feature.window.column_suffix(): feature.window.ends_every(unit.slice_us)
            for feature in features
        }
        when = ", ".join(f"{suffix} every {format_duration(step)}" for suffix, step in ends.items())
        kept_us = (
            max(feature.window.length_us for feature in features) + unit.emission.corrections_us
        )
        most = f"up to {-(-kept_us // unit.slice_us)} partials of an entity in memory"
        topics.append((unit.view, f"to topic {unit.emission.topic}: {when}; {most}"))
    return tuple(topics)


def refuse_changed_units(new: Deployment, deployed: Deployment | None) -> None:
    """Raise DefinitionError where `changes` has a refused one, or an archive could not go on."""
    for source in new.sources:
        then = None if deployed is None else _deployed_source(source, deployed)
        if then is not None and (reasons := refusals(source, then)):
            raise DefinitionError(
                "; ".join(reasons),
                where=f"source {source.name!r}",
                expected="columns of the types that they are archived by",
                next_step="put a column of another name in its place, with paths={…: '$.…'}",
            )
    refused: dict[str, list[str]] = {}
    for change in changes(new, deployed):
        if change.kind == "refused":
            refused.setdefault(change.view, []).append(change.reason)
    if refused:
        lines = [
            f"view {view!r} is deployed with other partials: {'; '.join(why)}"
            for view, why in refused.items()
        ]
        raise DefinitionError(
            "\n".join(lines),
            where=", ".join(f"view {view!r}" for view in refused),
            expected="what is stored under a name stays: same columns, row logic, partials, slice",
            next_step="deploy the changed view under a new name, and move its readers",
        )


def refuse_changed_schemas(new: Deployment, deployed: Deployment) -> None:
    """Raise DefinitionError where both have a source that they read otherwise."""
    for source in new.sources:
        then = _deployed_source(source, deployed)
        if then is not None and (differences := schema_changes(source, then)):
            raise DefinitionError(
                f"the schema of {source.name!r} changed since: {'; '.join(differences)}",
                where=f"source {source.name!r}",
                expected="deployments between which no schema changed",
                next_step="mend the definitions, and run slicewise apply",
            )


def change_of(unit: StorageUnit, new: Deployment, deployed: Deployment) -> Change:
    """Effect of deploying a unit of `new`."""
    view, fingerprint = unit.view, unit.storage_fingerprint
    source = new.source(unit.source)
    then = _deployed_source(source, deployed)
    if then is not None and (reasons := refusals(source, then)):
        return Change(view, "refused", "; ".join(reasons), fingerprint)
    old = {stored_unit.storage_fingerprint: stored_unit for stored_unit in deployed.units}
    if fingerprint in old:
        return _over_what_is_stored(unit, old[fingerprint], new, deployed)
    # an event list beside slices, or slices beside a list, change nothing of what stands
    other = nearest(unit, deployed.view(view) if view in deployed.views else ())
    if other is not None:
        reason = "; ".join(differences(unit, source, other, deployed.source(other.source)))
        if then is not None and (
            read := sorted(reread(source, then) & {*unit.reads, *other.reads})
        ):
            what = (
                f"the source's {', '.join(read)} changed: built again from the archive, 503 until "
                f"then; {reason}"
            )
            return Change(view, "new", what, fingerprint)
        return Change(view, "refused", reason, fingerprint)
    history = "all" if unit.lifetime else format_span(unit.retention_us)
    reason = f"stored from now on; {history} of history come from the archive"
    if version_of(view) is not None:
        reason = f"{_beside(unit, source, deployed)}; {reason}"
    return Change(view, "new", reason, fingerprint)


def _beside(unit: StorageUnit, source: Source, deployed: Deployment) -> str:
    """A new version of a view in words: what it stands beside, and what differs."""
    live = base_of(unit.view)
    other = nearest(unit, deployed.view(live) if live in deployed.views else ())
    if other is None:
        return f"beside {live}, which answers as before"
    same = fingerprinted(replace(unit, view=other.view, version=other.version), source)
    reasons: list[str] = []
    if same.storage_fingerprint != other.storage_fingerprint:
        reasons += differences(same, source, other, deployed.source(other.source))
    if unit.retention_us > other.retention_us:
        kept, kept_then = format_span(unit.retention_us), format_span(other.retention_us)
        reasons.append(f"it keeps {kept}, was {kept_then}")
    return f"beside {live}, which answers as before: {'; '.join(reasons) or 'it has other levels'}"


def _deployed_source(source: Source, deployed: Deployment) -> Source | None:
    return next(
        (
            deployed_source
            for deployed_source in deployed.sources
            if deployed_source.name == source.name
        ),
        None,
    )


def _over_what_is_stored(
    unit: StorageUnit, same: StorageUnit, new: Deployment, deployed: Deployment
) -> Change:
    view, fingerprint = unit.view, unit.storage_fingerprint
    if (
        isinstance(unit, ListUnit)
        and isinstance(same, ListUnit)
        and unit.event_list.needs_more(same.event_list)
    ):
        sharing = [other.view for other in new.units if other.storage_fingerprint == fingerprint]
        reason = (
            f"its event list keeps more from now on, and is built again for {', '.join(sharing)}"
        )
        return Change(view, "new", reason, fingerprint)
    if unit.retention_us > same.retention_us:
        # What older windows need has expired already: answers would be short without a sign.
        reason = (
            f"a longer window needs {format_span(unit.retention_us)} of history in Redis, which "
            "keeps "
            f"{format_span(same.retention_us)}"
        )
        return Change(view, "refused", reason, fingerprint)
    missing = sorted(set(unit.levels) - set(same.levels))
    if missing:
        reason = (
            f"a window is read by {format_span(missing[0])}, which hours compacted so far do not "
            "keep"
        )
        return Change(view, "refused", reason, fingerprint)
    now, then = new.source(unit.source), deployed.source(same.source)
    if now.schema_fingerprint != then.schema_fingerprint:
        what = "; ".join(schema_changes(now, then)) or "other names within its records"
        reason = (
            f"records of source {now.name!r} are judged by its new schema from where the log ends "
            f"then: {what}"
        )
        return Change(view, "definition", reason, fingerprint)
    if same.view != view and base_of(same.view) == base_of(view):
        reason = (
            f"version {unit.version} is live, with what it stored"
            if version_of(view) is None
            else f"it was live until then, and stays readable as {view}"
        )
        return Change(view, "definition", reason, fingerprint)
    deployed_definitions = {
        other.definition_fingerprint for other in deployed.units if other.view == view
    }
    if unit.definition_fingerprint in deployed_definitions:
        # an owner or a description: a deployment, and no work
        reason = "; ".join(definition_differences("view", view, new, deployed))
        return Change(view, "unchanged", reason or "nothing to do", fingerprint)
    return Change(view, "definition", "answers from what is stored", fingerprint)


def _explained(unit: StorageUnit, change: Change, events_per_hour: float | None) -> Explained:
    if isinstance(unit, ListUnit):
        return _explained_list(unit, change)
    row = row_bytes(unit.layout)
    longest = ANY if events_per_hour is None or unit.lifetime else math.ceil(24 * events_per_hour)
    kept = format_span(unit.retention_us)
    return Explained(
        view=unit.view,
        unit=unit.storage_fingerprint,
        definition=unit.definition_fingerprint,
        entity=", ".join(name for name, _ in unit.entity) or "(global)",
        slice=format_duration(unit.slice_us),
        levels=tuple(format_duration(level) for level in unit.levels),
        pentads=unit.five_day_totals,
        retention=f"a total, and {kept} after it" if unit.lifetime else kept,
        features=len(unit.features),
        partials=tuple(sorted(_partial_names(unit).values())),
        bytes_per_row=row,
        most_bytes_per_row=most_row_bytes(unit.layout, longest),
        bytes_per_entity=entity_bytes(unit, events_per_hour),
        reads_per_request=reads_per_request(unit),
        reads=window_reads(unit),
        change=change,
    )


def _explained_list(unit: ListUnit, change: Change) -> Explained:
    kept = unit.event_list
    # a sorted set keeps a member in a node of its list and an entry of its table
    row = unit.members.record.itemsize + SEAL_BYTES
    most = row + TEXT_BYTES * sum(is_text(arrow_type(kind)) for _, kind in unit.input_types)
    last = f"{format_span(kept.range_us)} of events" if kept.range_us else ""
    rows = f"the last {kept.rows} before {format_span(kept.late_us)} ago" if kept.rows else ""
    return Explained(
        view=unit.view,
        unit=unit.storage_fingerprint,
        definition=unit.definition_fingerprint,
        entity=", ".join(name for name, _ in unit.entity) or "(global)",
        slice="events",
        levels=(),
        pentads=False,
        retention=" and ".join(part for part in (last, rows, f"at most {kept.most}") if part),
        features=len(unit.features),
        partials=tuple(name for name, _ in unit.input_types),
        bytes_per_row=row,
        most_bytes_per_row=most,
        bytes_per_entity=kept.most * (most + MEMBER_OVERHEAD),
        reads_per_request=reads_per_request(unit),
        reads=(),
        change=change,
    )


def _partial_names(unit: StorageUnit) -> Mapping[int, str]:
    names: dict[int, list[str]] = {}
    for feature in unit.features:
        text = feature.aggregate.describe()
        if text not in names.setdefault(feature.partial, []):
            names[feature.partial].append(text)
    for partial, aggregate in enumerate(unit.layout.partials):
        names.setdefault(partial, [aggregate.describe()])  # what sessions alone need
    return {partial: " and ".join(texts) for partial, texts in names.items()}


@dataclass(frozen=True)
class Took:
    """A schema that took the place of another. until: the first offsets that are judged by it;
    None: not recorded."""

    changes: tuple[str, ...]
    until: OffsetVector | None

    @property
    def text(self) -> str:
        """For people."""
        what = "; ".join(self.changes) or "other names within its records"
        if self.until is None:
            return f"{what}; from where the log ends when it is applied"
        offsets = ", ".join(
            f"{offset} of partition {partition}"
            for (_, partition), offset in self.until.offsets.items()
        )
        return f"{what}; from offset {offsets or '0'} on"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"changes": list(self.changes), "from": offsets_to_json(self.until)}


def schema_history(source: Source) -> tuple[Took, ...]:
    """The schemas of the source that took the place of another, oldest first."""
    schemas = [*(version.source for version in source.earlier), source]
    return tuple(
        Took(schema_changes(schemas[i + 1], version.source), version.until)
        for i, version in enumerate(source.earlier)
    )
