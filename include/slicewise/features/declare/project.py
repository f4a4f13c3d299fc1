"""A project is all that its module declares; what is planned and deployed is a project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.feature_set import FeatureSet
from slicewise.features.declare.leaderboard import Leaderboard
from slicewise.features.schema.kafka_source import KafkaSource
from slicewise.features.suites import Suite


@dataclass(frozen=True)
class Project:
    """Everything that a project's module declares. sources: what SQL may name, those of the views
    among them."""

    name: str
    views: tuple[FeatureView, ...]
    feature_sets: tuple[FeatureSet, ...] = ()
    sources: tuple[KafkaSource, ...] = ()
    leaderboards: tuple[Leaderboard, ...] = ()
    suites: tuple[Suite, ...] = ()
    """Suites of the files in its folder `expectations`."""

    @staticmethod
    def of(name: str, definitions: Iterable[object]) -> Project:
        """A project of the views, feature sets, leaderboards and sources among these objects, or in
        a tuple of them."""
        views: dict[int, FeatureView] = {}
        sets: dict[int, FeatureSet] = {}
        sources: dict[int, KafkaSource] = {}
        leaderboards: dict[int, Leaderboard] = {}
        for given in definitions:
            for value in given if isinstance(given, tuple | list) else (given,):
                if isinstance(value, FeatureView):
                    views[id(value)] = value
                    sources[id(value.source)] = value.source
                elif isinstance(value, FeatureSet):
                    sets[id(value)] = value
                elif isinstance(value, Leaderboard):
                    leaderboards[id(value)] = value
                elif isinstance(value, KafkaSource):
                    sources[id(value)] = value
        return Project(
            name,
            tuple(views.values()),
            tuple(sets.values()),
            tuple(sources.values()),
            tuple(leaderboards.values()),
        )
