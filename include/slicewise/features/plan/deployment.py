"""A Deployment is what runs: plain frozen data, equal JSON for equal definitions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from slicewise.errors import DefinitionError, UnknownName
from slicewise.features import own
from slicewise.features.naming import at_version as at_version
from slicewise.features.naming import base_of as base_of
from slicewise.features.naming import version_of as version_of
from slicewise.features.plan.build import leaderboard_payload, unit_from_json, unit_to_json
from slicewise.features.plan.fingerprint import canonical_json, fingerprint
from slicewise.features.plan.unit import (
    PlannedFeature,
    SliceUnit,
    Source,
    StorageUnit,
    plain,
    source_from_json,
    source_to_json,
)
from slicewise.names import unknown
from slicewise.offsets.vector import OffsetVector

FORMAT = 1


@dataclass(frozen=True)
class PlannedSet:
    """A feature set. features: refs "view:column"; defaults: (ref, value)."""

    name: str
    features: tuple[str, ...]
    defaults: tuple[tuple[str, Any], ...] = ()
    owner: str | None = None
    project: str = ""
    on_failure: str = "error"
    """Answer to a live read while the store gives none: "error", "stale" or "default"."""
    max_staleness_us: int | None = None
    log: str | None = None
    """Source that answers are logged to; None of a set that logs none."""
    log_rate: float = 1.0
    """Share of the entities whose answers are logged."""

    @property
    def logging(self) -> str:
        """Words for people on where answers are logged."""
        if self.log is None:
            return "nowhere"
        return f"to {self.log}" + (
            f", {self.log_rate:.4g} of entities" if self.log_rate < 1 else ""
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; of a log only where there is one, so that other sets keep their digest."""
        written = plain(self)
        if self.log is None:
            del written["log"], written["log_rate"]
        return written


@dataclass(frozen=True)
class PlannedLeaderboard:
    """A leaderboard of a deployment. topic: of its corrections; None where late events are ignored.

    fingerprint: 16 hex digits of what its rows mean; a stored leaderboard of another one is not
    this leaderboard.
    """

    name: str
    view: str
    column: str
    k: int
    every_us: int
    topic: str | None
    correct_within_us: int
    owner: str | None = None
    project: str = ""
    fingerprint: str = ""

    @property
    def ref(self) -> str:
        """ "view:column"."""
        return f"{self.view}:{self.column}"

    def fingerprint_over(self, unit: StorageUnit, feature: PlannedFeature) -> str:
        """Fingerprint of what its rows mean, by the planned feature that they are ranked by."""
        return fingerprint(leaderboard_payload(unit, feature, self.k, self.every_us))


@dataclass(frozen=True)
class PlannedExpectation:
    """An expectation of a deployment. suite: "events.<source>" or "features.<view>". type, kwargs,
    severity: as `slicewise.features.expectations` has them, kwargs as canonical JSON. It
    bears on nothing that is stored or answered."""

    suite: str
    type: str
    kwargs: str
    severity: str
    project: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return plain(self) | {"kwargs": json.loads(self.kwargs)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> PlannedExpectation:
        """Inverse of `to_json`."""
        return PlannedExpectation(**{**raw, "kwargs": canonical_json(raw["kwargs"])})


DescribedKind = Literal["source", "view", "feature", "feature set", "leaderboard"]


@dataclass(frozen=True)
class PlannedDescription:
    """Words of a definition's author. name: of a feature "view:feature". Of a source each project
    that declares it may say some. It bears on nothing that is stored or answered."""

    kind: DescribedKind
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    project: str = ""

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> PlannedDescription:
        """Inverse of `plain`."""
        return PlannedDescription(**{**raw, "tags": tuple(raw["tags"])})


VersionedKind = Literal["view", "feature set"]


@dataclass(frozen=True)
class LiveVersion:
    """Version that a name stands for, of a view or a feature set that has had several. live: its
    number; 0 of a feature set none of whose versions is live. newest: the highest number that the
    name has had. waits: the version of a feature set that its definitions are, until the views that
    it reads are promoted. began: the one that began with a view's version, in place of none. 0:
    there is no such version."""

    kind: VersionedKind
    name: str
    live: int
    newest: int
    project: str = ""
    waits: int = 0
    began: int = 0


@dataclass(frozen=True)
class Deployment:
    """Deployment of `slicewise apply`, from which every process works.

    project: the name of the project, of all of them where several stand on one platform.
    """

    project: str
    sources: tuple[Source, ...]
    units: tuple[StorageUnit, ...]
    feature_sets: tuple[PlannedSet, ...]
    leaderboards: tuple[PlannedLeaderboard, ...] = ()
    expectations: tuple[PlannedExpectation, ...] = ()
    described: tuple[PlannedDescription, ...] = ()
    live: tuple[LiveVersion, ...] = ()
    """Names that have had one version alone are not among them."""

    def to_json(self) -> str:
        """Canonical JSON; `from_json` gives an equal deployment."""
        # these only where there are any, so that what is deployed without keeps its digest
        leaderboards = (
            {"leaderboards": [plain(leaderboard) for leaderboard in self.leaderboards]}
            if self.leaderboards
            else {}
        )
        expectations = (
            {"expectations": [expectation.to_json() for expectation in self.expectations]}
            if self.expectations
            else {}
        )
        described = {"described": [plain(one) for one in self.described]} if self.described else {}
        live = {"live": [plain(one) for one in self.live]} if self.live else {}
        return canonical_json(
            {
                **live,
                **leaderboards,
                **expectations,
                **described,
                "format": FORMAT,
                "project": self.project,
                "sources": [source_to_json(source) for source in self.sources],
                "units": [unit_to_json(unit) for unit in self.units],
                "feature_sets": [feature_set.to_json() for feature_set in self.feature_sets],
            }
        )

    @staticmethod
    def from_json(text: str | bytes) -> Deployment:
        """The deployment of this JSON.

        Raises DefinitionError where this version of slicewise would store other bytes under the
        fingerprints that the JSON names.
        """
        raw = json.loads(text)
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise DefinitionError(
                "this is no deployment of this version",
                expected=f"JSON of format {FORMAT}",
                next_step="deploy again with the running version: slicewise apply",
            )
        sources = tuple(source_from_json(source) for source in raw["sources"])
        by_name = {source.name: source for source in sources}
        units = tuple(unit_from_json(unit, by_name[unit["source"]]) for unit in raw["units"])
        sets = tuple(
            PlannedSet(
                feature_set["name"],
                tuple(feature_set["features"]),
                tuple((ref, value) for ref, value in feature_set["defaults"]),
                feature_set["owner"],
                feature_set["project"],
                on_failure=feature_set.get("on_failure", "error"),
                max_staleness_us=feature_set.get("max_staleness_us"),
                log=feature_set.get("log"),
                log_rate=feature_set.get("log_rate", 1.0),
            )
            for feature_set in raw["feature_sets"]
        )
        expectations = tuple(map(PlannedExpectation.from_json, raw.get("expectations", ())))
        described = tuple(map(PlannedDescription.from_json, raw.get("described", ())))
        bare = Deployment(
            raw["project"],
            sources,
            units,
            sets,
            expectations=expectations,
            described=described,
            live=tuple(LiveVersion(**one) for one in raw.get("live", ())),
        )
        listed = raw.get("leaderboards", ())
        leaderboards = tuple(
            _leaderboard(
                leaderboard, *bare.resolve(f"{leaderboard['view']}:{leaderboard['column']}")
            )
            for leaderboard in listed
        )
        return replace(bare, leaderboards=leaderboards) if leaderboards else bare

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return hashlib.sha256(self.to_json().encode("ascii")).hexdigest()

    @cached_property
    def _units(self) -> Mapping[str, StorageUnit]:
        return {unit.storage_fingerprint: unit for unit in self.units}

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return {source.name: source for source in self.sources}

    @cached_property
    def _views(self) -> Mapping[str, tuple[StorageUnit, ...]]:
        views: dict[str, tuple[StorageUnit, ...]] = {}
        for unit in self.units:
            views[unit.view] = (*views.get(unit.view, ()), unit)
        return views

    @cached_property
    def features(self) -> Mapping[str, tuple[StorageUnit, PlannedFeature]]:
        """All features, each with its unit, by "view:column" of the names that stand."""
        return {
            f"{unit.view}:{feature.column}": (unit, feature)
            for unit in self.units
            for feature in unit.features
        }

    @cached_property
    def _sets(self) -> Mapping[str, PlannedSet]:
        return {feature_set.name: feature_set for feature_set in self.feature_sets}

    @cached_property
    def sliced(self) -> tuple[SliceUnit, ...]:
        """The units whose partials are stored by slice: what is compacted and published."""
        return tuple(unit for unit in self.units if isinstance(unit, SliceUnit))

    def unit(self, storage_fingerprint: str) -> StorageUnit:
        """The unit of this storage fingerprint; UnknownName if there is none."""
        if storage_fingerprint not in self._units:
            raise unknown("unit", storage_fingerprint, self._units)
        return self._units[storage_fingerprint]

    def source(self, name: str) -> Source:
        """The source of this name; UnknownName if there is none."""
        if name not in self._sources:
            raise unknown("source", name, self._sources)
        return self._sources[name]

    def topic_of(self, source: str) -> str:
        """The topic's name of a source; UnknownName if there is none."""
        return self.source(source).topic

    def view(self, name: str) -> tuple[StorageUnit, ...]:
        """The units of a view, or of one of its versions; UnknownName if there is none."""
        name = self.current_name("view", name)
        if name not in self._views:
            raise unknown("view", name, self.views)
        return self._views[name]

    @cached_property
    def _live(self) -> Mapping[tuple[str, str], LiveVersion]:
        return {(one.kind, one.name): one for one in self.live}

    def live_version(self, kind: VersionedKind, name: str) -> LiveVersion:
        """The version that this name stands for; the first where it has had no other."""
        return self._live.get((kind, name)) or LiveVersion(kind, name, 1, 1)

    def current_name(self, kind: VersionedKind, name: str) -> str:
        """The name that a definition stands under: of a live version's own name the name alone."""
        base = base_of(name)
        return base if version_of(name) == self.live_version(kind, base).live else name

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views that projects declare, in the order of their definition; versions that
        are not live under names of their own."""
        return tuple(name for name, units in self._views.items() if units[0].project != own.PROJECT)

    @cached_property
    def declared(self) -> Deployment:
        """The part that projects declare: without what the platform deploys for itself, which no
        job archives or checks."""
        sources = tuple(source for source in self.sources if source.name != own.SOURCE)
        if len(sources) == len(self.sources):
            return self
        return replace(
            self, sources=sources, units=tuple(u for u in self.units if u.project != own.PROJECT)
        )

    @property
    def opening(self) -> tuple[str, ...]:
        """Sources whose schema has no recorded offsets yet (docs/adr/0057)."""
        return tuple(source.name for source in self.sources if source.is_opening)

    def with_until(self, until: Mapping[str, OffsetVector]) -> Deployment:
        """The deployment in which the schemas of these sources hold from there on."""
        return replace(
            self,
            sources=tuple(
                source.with_until(until[source.name]) if source.name in until else source
                for source in self.sources
            ),
        )

    @property
    def publishes(self) -> bool:
        """Tells whether there is something for the emission's driver to do."""
        return bool(self.leaderboards) or any(
            unit.emission is not None and version_of(unit.view) is None for unit in self.units
        )

    def resolve(self, ref: str) -> tuple[StorageUnit, PlannedFeature]:
        """The unit and feature of "view:column"; UnknownName with near names if there is none."""
        feature = self.features.get(ref)
        if feature is None:
            view, separator, column = ref.partition(":")
            feature = self.features.get(f"{self.current_name('view', view)}:{column}")
        if feature is None:
            if not separator:
                raise UnknownName(
                    f"{ref!r} is no feature",
                    expected='"view:column"',
                    next_step="put the view's name and a colon before the column",
                )
            columns = [f.column for unit in self.view(view) for f in unit.features]
            raise unknown("feature", column, columns, f"view {view!r}")
        return feature

    @cached_property
    def _described(self) -> Mapping[tuple[str, str], PlannedDescription]:
        words: dict[tuple[str, str], PlannedDescription] = {}
        for one in self.described:
            before = words.get((one.kind, one.name))
            if before is None:
                words[one.kind, one.name] = one
            else:  # of a source, by another project
                tags = tuple(sorted({*before.tags, *one.tags}))
                description = before.description or one.description
                words[one.kind, one.name] = replace(before, description=description, tags=tags)
        return words

    def description(self, kind: str, name: str) -> PlannedDescription | None:
        """Words of a definition's author; None where there are none, and of a kind that nobody
        describes. A source has the tags of all projects, and the first description by their
        names."""
        return self._described.get((kind, name))

    def feature_set(self, name: str) -> PlannedSet:
        """The feature set of this name, or one of its versions; UnknownName if there is none."""
        name = self.current_name("feature set", name)
        if name not in self._sets:
            raise unknown("feature set", name, self._sets)
        return self._sets[name]

    def leaderboard(self, name: str) -> PlannedLeaderboard:
        """The leaderboard of this name; UnknownName if there is none."""
        for leaderboard in self.leaderboards:
            if leaderboard.name == name:
                return leaderboard
        raise unknown("leaderboard", name, [leaderboard.name for leaderboard in self.leaderboards])


def _leaderboard(
    raw: Mapping[str, Any], unit: StorageUnit, feature: PlannedFeature
) -> PlannedLeaderboard:
    """The leaderboard; DefinitionError where this version would rank other values under its
    fingerprint."""
    leaderboard = PlannedLeaderboard(**raw)
    now = leaderboard.fingerprint_over(unit, feature)
    if now != leaderboard.fingerprint:
        raise DefinitionError(
            (
                f"the fingerprint of leaderboard {leaderboard.name!r} is "
                f"{leaderboard.fingerprint} in the deployment and {now} here"
            ),
            expected="the version of slicewise that deployed it, or one that ranks alike",
            next_step="run that version, or deploy again with this one",
        )
    return leaderboard
