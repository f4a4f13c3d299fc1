"""A definition for people: what it says, what it is used by, and whether words are about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slicewise.features import own
from slicewise.features.plan.changes.history import Kind, owner_of
from slicewise.features.plan.deployment import Deployment, base_of, version_of
from slicewise.features.plan.unit import ListUnit, SliceUnit
from slicewise.features.schema.types import instant_text
from slicewise.windows.durations import format_duration, format_span


@dataclass(frozen=True)
class FeatureText:
    """A feature of a view, in words."""

    column: str
    aggregate: str
    window: str
    description: str = ""

    @property
    def words(self) -> str:
        """All of its words, in lower case, for a search."""
        return f"{self.column} {self.aggregate} {self.window} {self.description}".lower()


@dataclass(frozen=True)
class Description:
    """A definition of a deployment, in words."""

    name: str
    kind: Kind
    owner: str
    project: str
    facts: Mapping[str, str]
    """Word for what it says -> what it says, in the order in which a person reads."""
    features: tuple[FeatureText, ...] = ()
    uses: tuple[str, ...] = ()
    """Names of the definitions that read it, each after its kind."""
    description: str = ""
    tags: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @property
    def words(self) -> str:
        """All of its words, in lower case, for a search."""
        features = (one.words for one in self.features)
        own_words = (self.name, self.kind, self.owner, self.project, self.description, *self.tags)
        every = (*own_words, *self.facts.values(), *features)
        return " ".join(every).lower()


def descriptions(deployment: Deployment) -> tuple[Description, ...]:
    """Descriptions of all that projects declare: sources, views, feature sets, leaderboards."""
    every = (
        *_sources(deployment),
        *_views(deployment),
        *_feature_sets(deployment),
        *_leaderboards(deployment),
    )
    given = ((one, deployment.description(one.kind, one.name)) for one in every)
    return tuple(
        one if of is None else replace(one, description=of.description, tags=of.tags)
        for one, of in given
    )


def matching(every: Sequence[Description], text: str) -> tuple[Description, ...]:
    """Descriptions that all words of the text are about; those with one in the name come first."""
    words = list(dict.fromkeys(text.lower().split()))
    texts = ((one, one.words) for one in every)
    having = [one for one, text_of in texts if all(word in text_of for word in words)]
    return tuple(
        sorted(having, key=lambda one: not any(word in one.name.lower() for word in words))
    )


def _sources(deployment: Deployment) -> Iterator[Description]:
    for source in deployment.sources:
        if source.name == own.SOURCE:
            continue
        views = (
            f"view {name}"
            for name in deployment.views
            if any(unit.source == source.name for unit in deployment.view(name))
        )
        facts = {
            "topic": source.topic,
            "format": source.format,
            "columns": ", ".join(f"{name} {kind}" for name, kind in source.columns),
            "event time": source.timestamp,
            "late by at most": format_span(source.max_lateness_us),
        }
        if source.history_until_us is not None:
            facts["history until"] = instant_text(source.history_until_us)
        yield Description(source.name, "source", source.owner or "", "", facts, uses=tuple(views))


def _views(deployment: Deployment) -> Iterator[Description]:
    for name in deployment.views:
        units = deployment.view(name)
        features = tuple(
            FeatureText(
                feature.column,
                feature.aggregate.describe(),
                feature.window.column_suffix(),
                ""
                if (of := deployment.description("feature", f"{name}:{feature.feature}")) is None
                else of.description,
            )
            for unit in units
            for feature in unit.features
        )
        sets = (
            f"feature set {one.name}"
            for one in deployment.feature_sets
            if any(ref.partition(":")[0] == name for ref in one.features)
        )
        ranked = (f"leaderboard {one.name}" for one in deployment.leaderboards if one.view == name)
        published = (
            f"topic {unit.emission.topic}"
            for unit in units
            if isinstance(unit, SliceUnit) and unit.emission is not None
            if version_of(name) is None
        )
        first = units[0]
        kept = dict.fromkeys(
            "events"
            if isinstance(unit, ListUnit)
            else f"slices of {format_duration(unit.slice_us)}"
            for unit in units
        )
        made_columns = {column: made for unit in units for column, made in unit.columns}
        facts = {
            "version": _version(deployment, name),
            "source": first.source,
            "entity": ", ".join(f"{column} {kind}" for column, kind in first.entity) or "none",
            "where": "" if first.where is None else first.where.text.strip(),
            "columns": ", ".join(
                f"{column} = {made.text.strip()}"
                for column, made in made_columns.items()
                if not column.startswith("_")
            ),
            "kept as": ", ".join(kept),
        }
        yield Description(
            name,
            "view",
            owner_of(deployment, "view", name),
            first.project,
            {word: text for word, text in facts.items() if text},
            features,
            (*sets, *ranked, *published),
        )


def _version(deployment: Deployment, name: str) -> str:
    """Number of a view's version and those beside it; nothing where there was one alone."""
    base = base_of(name)
    stands = deployment.live_version("view", base)
    if stands.newest < 2:
        return ""
    number = version_of(name)
    if number is not None:
        return f"{number}; {base} stands for version {stands.live}"
    beside = [other for other in deployment.views if base_of(other) == base and other != base]
    return f"{stands.live}, live" + (f"; beside it {', '.join(beside)}" if beside else "")


def _feature_sets(deployment: Deployment) -> Iterator[Description]:
    for one in deployment.feature_sets:
        facts = {"features": ", ".join(one.features), "on failure": one.on_failure}
        if one.log is not None:
            facts["answers are logged"] = one.logging
        yield Description(one.name, "feature set", one.owner or "", one.project, facts)


def _leaderboards(deployment: Deployment) -> Iterator[Description]:
    for one in deployment.leaderboards:
        facts = {
            "ranks": f"the {one.k} with the highest {one.ref}",
            "every": format_duration(one.every_us),
        }
        if one.topic:
            facts["corrections"] = f"topic {one.topic}"
        yield Description(one.name, "leaderboard", one.owner or "", one.project, facts)
