"""A job consists of steps: each names what it reads and writes, so that an edge of the graph is one
that exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.features import own
from slicewise.lifecycle.lineage.columns import RawUnit
from slicewise.lifecycle.lineage.datasets import (
    Column,
    Dataset,
    Namespaces,
    Origin,
    RawSource,
    Types,
    file,
)

CHECKS = "ops.checks"
"""Table of the lake that keeps results of checks."""


@dataclass(frozen=True)
class Step:
    """A step of a job. name: empty where the job has no other."""

    name: str
    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]


@dataclass(frozen=True)
class Scope:
    """Parts of a job's request that its lineage depends on."""

    views: tuple[str, ...] = ()
    """Views or units that it is about; all where there are none."""
    features: tuple[str, ...] = ()
    """Features of a training set: a feature set, or "view:column" each."""
    spine: str = ""
    out: str = ""


@dataclass(frozen=True)
class Deployed:
    """A deployment's JSON, without what the platform deploys for itself."""

    manifest: Mapping[str, Any]
    namespaces: Namespaces
    scope: Scope = field(default_factory=Scope)
    types: Types = field(default_factory=dict)

    @property
    def units(self) -> list[RawUnit]:
        """Units of the views in scope."""
        return [
            unit
            for unit in self.manifest.get("units", ())
            if unit.get("project") != own.PROJECT
            and (
                not self.scope.views
                or not {unit["view"], unit["storage_fingerprint"]}.isdisjoint(self.scope.views)
            )
        ]

    @property
    def sources(self) -> list[RawSource]:
        """Sources of these units."""
        named = {unit["source"] for unit in self.units}
        return [source for source in self.manifest.get("sources", ()) if source["name"] in named]

    def topics(self) -> tuple[Dataset, ...]:
        return tuple(self.namespaces.source(source) for source in self.sources)

    def archives(self) -> tuple[Dataset, ...]:
        return tuple(self.namespaces.archive(source) for source in self.sources)

    def slices(self) -> tuple[Dataset, ...]:
        return tuple(
            self.namespaces.slices(unit) for unit in self.units if not unit.get("event_list")
        )

    def views(self, *, of_topics: bool = False) -> tuple[Dataset, ...]:
        """Views in the store. of_topics: made of the topics' records, not of archived ones."""
        topics = {source["name"]: source["topic"] for source in self.sources}
        by_view: dict[str, list[RawUnit]] = {}
        for unit in self.units:
            by_view.setdefault(unit["view"], []).append(unit)
        namespaces = self.namespaces
        return tuple(
            namespaces.view(units, namespaces.log, topics[units[0]["source"]], self.types)
            if of_topics
            else namespaces.view(units, namespaces.lake, f"log.{units[0]['source']}", self.types)
            for units in by_view.values()
        )


def steps_of(
    job: str,
    manifest: Mapping[str, Any],
    namespaces: Namespaces,
    scope: Scope | None = None,
    types: Types | None = None,
) -> tuple[Step, ...]:
    """Steps of a job over what is deployed; none of a job that makes no data of other data.
    manifest: the deployment's JSON. scope: parts of its request; all views where it is left out.
    types: those of features, which the JSON does not have."""
    if job not in _STEPS:
        return ()
    steps = _STEPS[job](Deployed(manifest, namespaces, scope or Scope(), types or {}))
    return tuple(
        Step(step.name, tuple(one.as_input() for one in step.inputs), step.outputs)
        for step in steps
        if step.inputs and step.outputs
    )


def united(steps: Sequence[Step]) -> tuple[tuple[Dataset, ...], tuple[Dataset, ...]]:
    """Inputs and outputs of all steps together. What one step writes and another reads is an output
    alone."""
    outputs = {(one.namespace, one.name): one for step in steps for one in step.outputs}
    inputs = {(one.namespace, one.name): one for step in steps for one in step.inputs}
    return tuple(one for key, one in inputs.items() if key not in outputs), tuple(outputs.values())


def _stream(deployed: Deployed) -> list[Step]:
    return [Step("", deployed.topics(), deployed.views(of_topics=True))]


def _emit(deployed: Deployed) -> list[Step]:
    """A step of each topic that is published to, and of each leaderboard: its rows in the store,
    and its corrections where it has any."""
    sources = {source["name"]: source for source in deployed.sources}
    namespaces = deployed.namespaces
    by_topic: dict[str, list[RawUnit]] = {}
    for unit in deployed.units:
        if "emission" in unit:
            by_topic.setdefault(str(unit["emission"]["topic"]), []).append(unit)
    steps = []
    for topic, units in by_topic.items():
        read = {unit["source"]: sources[unit["source"]] for unit in units}
        inputs = tuple(map(namespaces.source, read.values()))
        parts = [
            namespaces.published(
                topic, source, [u for u in units if u["source"] == name], deployed.types
            )
            for name, source in read.items()
        ]
        columns = tuple(column for part in parts for column in part.columns)
        steps.append(Step(topic, inputs, (Dataset(namespaces.log, topic, columns),)))
    views = {view.name: view for view in deployed.views(of_topics=True)}
    of_view = {unit["view"]: sources[unit["source"]] for unit in deployed.units}
    for leaderboard in deployed.manifest.get("leaderboards", ()):
        if leaderboard["view"] not in views:
            continue
        ranked = [
            one for one in views[leaderboard["view"]].columns if one.name == leaderboard["column"]
        ]
        outputs = [Dataset(namespaces.store, leaderboard["name"], tuple(ranked))]
        if leaderboard.get("topic"):
            outputs.append(Dataset(namespaces.log, leaderboard["topic"], tuple(ranked)))
        source = namespaces.source(of_view[leaderboard["view"]])
        steps.append(Step(leaderboard["name"], (source,), tuple(outputs)))
    return steps


def _archive(deployed: Deployed) -> list[Step]:
    return [Step("archive", deployed.topics(), deployed.archives())]


def _compact(deployed: Deployed) -> list[Step]:
    sliced = {unit["view"] for unit in deployed.units if not unit.get("event_list")}
    views = tuple(view for view in deployed.views() if view.name in sliced)
    return [
        *_archive(deployed),
        Step("hours", deployed.archives(), deployed.slices()),
        Step("publish", (*deployed.archives(), *deployed.slices()), views),
    ]


def _backfill(deployed: Deployed) -> list[Step]:
    return [
        *_archive(deployed),
        Step("hours", deployed.archives(), deployed.slices()),
        Step("publish", (*deployed.archives(), *deployed.slices()), deployed.views()),
    ]


def _check(deployed: Deployed) -> list[Step]:
    read = (*deployed.views(), *deployed.archives())
    return [
        *_archive(deployed),
        Step("compare", read, (Dataset(deployed.namespaces.lake, CHECKS),)),
    ]


def _expect(deployed: Deployed) -> list[Step]:
    """Expectations of events, and of features as a training set has them."""
    return [Step("", deployed.archives(), (Dataset(deployed.namespaces.lake, CHECKS),))]


def _dataset(deployed: Deployed) -> list[Step]:
    """A training set: each feature is that of its view, made of archived events at the spine's
    moments."""
    scope = deployed.scope
    refs = _refs(deployed.manifest, scope.features)
    of_views = Deployed(
        deployed.manifest,
        deployed.namespaces,
        Scope(views=tuple(dict.fromkeys(ref.partition(":")[0] for ref in refs))),
        deployed.types,
    )
    entities = {(unit["view"], name) for unit in of_views.units for name, _ in unit["entity"]}
    views = {view.name: view for view in of_views.views()}
    spine = file(scope.spine)
    columns = [
        Column(column.name, column.kind, (Origin(spine.namespace, spine.name, column.name),))
        for view in views.values()
        for column in view.columns
        if (view.name, column.name) in entities
    ]
    for ref in refs:
        name, _, wanted = ref.partition(":")
        made = [one for one in views[name].columns if one.name == wanted] if name in views else []
        for one in made:
            of_view = Origin(views[name].namespace, name, wanted)
            columns.append(Column(ref, one.kind, (of_view, *one.origins)))
    inputs = (*views.values(), *of_views.archives(), spine)
    return [Step("", inputs, (file(scope.out, tuple(dict.fromkeys(columns))),))]


def _refs(manifest: Mapping[str, Any], features: Sequence[str]) -> tuple[str, ...]:
    sets = {one["name"]: one["features"] for one in manifest.get("feature_sets", ())}
    refs: list[str] = []
    for feature in features:
        refs += sets.get(feature, [feature])
    return tuple(dict.fromkeys(refs))


_STEPS: Mapping[str, Callable[[Deployed], list[Step]]] = {
    "stream": _stream,
    "tail": _stream,
    "emit": _emit,
    "archive": _archive,
    "compact": _compact,
    "backfill": _backfill,
    "check": _check,
    "expect": _expect,
    "dataset": _dataset,
}
