"""All that a name has meant: its versions, from which deployment on each stood, and what changed.

Of deployments that stood one after another, in the order in which they did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from slicewise.features import own
from slicewise.features.plan.build import unit_to_json
from slicewise.features.plan.changes.differences import differences
from slicewise.features.plan.changes.schema_change import schema_changes
from slicewise.features.plan.deployment import Deployment, PlannedDescription, version_of
from slicewise.features.plan.unit import (
    ListUnit,
    PlannedFeature,
    Source,
    StorageUnit,
    nearest,
    plain,
    source_to_json,
)
from slicewise.names import unknown

Kind = Literal["source", "view", "feature set", "leaderboard", "expectations"]
Effect = Literal["new", "changed", "removed"]
_KINDS: tuple[Kind, ...] = ("source", "view", "feature set", "leaderboard", "expectations")
_SHARED = ("event_list", "retention_us")
"""Parts of a unit of events that other views, which share the list, may widen."""
_UNSAID = "it is defined otherwise"


@dataclass(frozen=True)
class Stood:
    """A deployment that stood until the next one was made."""

    version: int
    at_us: int
    """Time at which it was made, in microseconds."""
    by: str
    how: str
    deployment: Deployment

    @property
    def made(self) -> str:
        """Time at which it was made, for people, in UTC."""
        return _utc(self.at_us)


@dataclass(frozen=True)
class Version:
    """A definition as it was from one deployment until another changed or removed it."""

    name: str
    kind: Kind
    number: int
    """Counts the definitions that the name has had, from 1; one that comes back counts again."""
    deployment_version: int
    """Version of the deployment that brought it."""
    at_us: int
    by: str
    how: str
    owner: str
    differences: tuple[str, ...]
    """Differences from the definition before; none of the first."""
    until_us: int | None = None
    """Time at which another came, or it was removed; None: it stands."""

    @property
    def since(self) -> str:
        """Time from which it stood, for people, in UTC."""
        return _utc(self.at_us)

    @property
    def until(self) -> str:
        """Time until which it stood, for people, in UTC."""
        return "stands" if self.until_us is None else _utc(self.until_us)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Changed:
    """A name that a deployment brought, changed or removed."""

    name: str
    kind: Kind
    effect: Effect
    differences: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _utc(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def changed(now: Deployment, then: Deployment | None) -> tuple[Changed, ...]:
    """The names that `now` brought, changed or removed, sources first. then: the one before."""
    result: list[Changed] = []
    for kind in _KINDS:
        new = _described(now, kind)
        old = {} if then is None else _described(then, kind)
        for name in dict.fromkeys((*new, *old)):
            if _is_moved(kind, name, now, then, new, old):
                continue  # which version is live is told of the name alone
            if name not in old:
                result.append(Changed(name, kind, "new"))
            elif name not in new:
                result.append(Changed(name, kind, "removed"))
            elif new[name] != old[name]:
                assert then is not None
                words = definition_differences(kind, name, now, then) or (_UNSAID,)
                result.append(Changed(name, kind, "changed", words))
    return tuple(result)


def _is_moved(
    kind: Kind,
    name: str,
    now: Deployment,
    then: Deployment | None,
    new: Mapping[str, object],
    old: Mapping[str, object],
) -> bool:
    """Tells whether a version was live in one of the deployments and stood beside it in the
    other."""
    if then is None or version_of(name) is None or kind not in ("view", "feature set"):
        return False
    of, names = (then, old) if name in new else (now, new)
    return name not in names and of.current_name(kind, name) in names


def definition_differences(
    kind: Kind, name: str, now: Deployment, then: Deployment
) -> tuple[str, ...]:
    """Differences of a definition that both have, each once; also those that change no answer."""
    return tuple(dict.fromkeys(_differences(kind, name, now, then)))


def versions(stood: Sequence[Stood], name: str) -> tuple[Version, ...]:
    """The versions of a name, the oldest first; of each kind that has had it.

    Raises UnknownName, with the names that are near, where none was ever deployed.
    """
    result: list[Version] = []
    names: set[str] = set()
    for before, one in zip((None, *stood), stood, strict=False):
        for change in changed(one.deployment, None if before is None else before.deployment):
            names.add(change.name)
            if change.name != name:
                continue
            result = [
                replace(version, until_us=one.at_us)
                if version.kind == change.kind and version.until_us is None
                else version
                for version in result
            ]
            if change.effect != "removed":
                result.append(
                    Version(
                        name,
                        change.kind,
                        sum(version.kind == change.kind for version in result) + 1,
                        one.version,
                        one.at_us,
                        one.by,
                        one.how,
                        owner_of(one.deployment, change.kind, name),
                        change.differences,
                    )
                )
    if not result:
        raise unknown("name", name, names)
    return tuple(result)


def _described(deployment: Deployment, kind: Kind) -> Mapping[str, object]:
    """Definitions, each with what its author says of it."""
    return {
        name: (definition, _words(deployment, kind, name))
        for name, definition in _definitions(deployment, kind).items()
    }


def _words(deployment: Deployment, kind: Kind, name: str) -> dict[str, PlannedDescription]:
    """Feature, or "" for the whole -> words of its author."""
    of = {"": deployment.description(kind, name)}
    if kind == "view":
        for feature in _features(deployment.view(name)).values():
            of[feature.feature] = deployment.description("feature", f"{name}:{feature.feature}")
    return {feature: one for feature, one in of.items() if one is not None}


def _definitions(deployment: Deployment, kind: Kind) -> Mapping[str, object]:
    """Name -> all that its definition says, in the order of the deployment."""
    if kind == "source":
        return {
            # until which offsets an earlier schema holds is no part of what was declared
            source.name: source_to_json(replace(source, earlier=()))
            for source in deployment.sources
            if source.name != own.SOURCE
        }
    if kind == "view":
        return {
            name: [_own_json(unit) for unit in deployment.view(name)] for name in deployment.views
        }
    if kind == "feature set":
        return {one.name: one.to_json() for one in deployment.feature_sets}
    if kind == "leaderboard":
        return {one.name: plain(one) for one in deployment.leaderboards}
    suites = dict.fromkeys(one.suite for one in deployment.expectations)
    return {suite: _expected(deployment, suite) for suite in suites}


def _own_json(unit: StorageUnit) -> dict[str, Any]:
    """A unit's JSON without what other views decide."""
    whole = unit_to_json(unit)
    dropped = _SHARED if isinstance(unit, ListUnit) else ()
    return {name: value for name, value in whole.items() if name not in dropped}


def _expected(deployment: Deployment, suite: str) -> list[str]:
    return [
        f"{one.type} {one.kwargs} ({one.severity})"
        for one in deployment.expectations
        if one.suite == suite
    ]


def owner_of(deployment: Deployment, kind: Kind, name: str) -> str:
    """The owner of a definition; empty where it has none. UnknownName if there is no such."""
    owner: str | None = None
    if kind == "source":
        owner = deployment.source(name).owner
    elif kind == "view":
        owner = deployment.view(name)[0].owner
    elif kind == "feature set":
        owner = deployment.feature_set(name).owner
    elif kind == "leaderboard":
        owner = deployment.leaderboard(name).owner
    return owner or ""


def _differences(kind: Kind, name: str, now: Deployment, then: Deployment) -> Iterator[str]:
    before, after = owner_of(then, kind, name), owner_of(now, kind, name)
    if kind in ("view", "feature set"):
        number, number_then = (of.live_version(kind, name).live for of in (now, then))
        if number != number_then:
            yield f"version {number} is live, was version {number_then}"
    if kind == "source":
        yield from _of_source(now.source(name), then.source(name))
    elif kind == "view":
        yield from _of_view(name, now, then)
    elif kind == "feature set":
        sets = now.feature_set(name), then.feature_set(name)
        yield from _members(sets[0].features, sets[1].features)
        if dict(sets[0].defaults) != dict(sets[1].defaults):
            yield "its defaults changed"
        if sets[0].on_failure != sets[1].on_failure:
            yield f"on_failure is {sets[0].on_failure}, was {sets[1].on_failure}"
        if sets[0].logging != sets[1].logging:
            yield f"answers are logged {sets[0].logging}, were {sets[1].logging}"
    elif kind == "expectations":
        yield from _members(_expected(now, name), _expected(then, name))
    else:
        new, old = plain(now.leaderboard(name)), plain(then.leaderboard(name))
        for option in ("view", "column", "k", "every_us", "topic", "correct_within_us"):
            if new[option] != old[option]:
                yield f"{option} is {new[option]}, was {old[option]}"
    if before != after:
        yield f"the owner is {after or 'nobody'}, was {before or 'nobody'}"
    words, words_then = _words(now, kind, name), _words(then, kind, name)
    if kind == "view":  # of a feature that came or went that is said alone
        features, features_then = (
            {"", *(one.feature for one in _features(of.view(name)).values())} for of in (now, then)
        )
        both = features & features_then
        words, words_then = (
            {of: one for of, one in some.items() if of in both} for some in (words, words_then)
        )
    yield from _of_words(words, words_then)


def _of_words(
    now: Mapping[str, PlannedDescription], then: Mapping[str, PlannedDescription]
) -> Iterator[str]:
    for feature in dict.fromkeys((*now, *then)):
        new, old = now.get(feature), then.get(feature)
        if (new.description if new else "") != (old.description if old else ""):
            yield f"{feature} is described otherwise" if feature else "it is described otherwise"
        if (tags := new.tags if new else ()) != (tags_then := old.tags if old else ()):
            yield f"the tags are {_listed(tags)}, were {_listed(tags_then)}"


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(tags) or "none"


def _of_source(now: Source, then: Source) -> Iterator[str]:
    yield from schema_changes(now, then)
    if now.dedupe != then.dedupe:
        yield "which events come again is declared otherwise"
    if now.registry != then.registry:
        yield f"the registry is {now.registry}, was {then.registry}"


def _of_view(name: str, now: Deployment, then: Deployment) -> Iterator[str]:
    units, units_then = now.view(name), then.view(name)
    features, features_then = _features(units), _features(units_then)
    yield from _members(features, features_then)
    for column in features:
        if column in features_then:
            text, text_then = _feature(features[column]), _feature(features_then[column])
            if text != text_then:
                yield f"{column} is {text}, was {text_then}"
    for unit in units:
        alike = [other for other in units_then if type(other) is type(unit)]
        other = nearest(unit, alike)
        if other and unit.storage_fingerprint not in {o.storage_fingerprint for o in alike}:
            yield from differences(unit, now.source(unit.source), other, then.source(other.source))
    published = {unit.emission for unit in units}, {unit.emission for unit in units_then}
    if published[0] != published[1]:
        yield "where it is published changed"


def _features(units: Iterable[StorageUnit]) -> dict[str, PlannedFeature]:
    return {feature.column: feature for unit in units for feature in unit.features}


def _feature(feature: PlannedFeature) -> str:
    return f"{feature.aggregate.describe()} over {feature.window.column_suffix()}"


def _members(now: Iterable[str], then: Iterable[str]) -> Iterator[str]:
    new, old = dict.fromkeys(now), dict.fromkeys(then)
    for column in new:
        if column not in old:
            yield f"{column} is added"
    for column in old:
        if column not in new:
            yield f"{column} is removed"
