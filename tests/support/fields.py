"""A test's fields of a source or a view are checked against those of its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import slicewise as sw


class SourceFields(TypedDict, total=False):
    """Arguments of sw.KafkaSource."""

    name: str
    schema: Mapping[str, str]
    timestamp: str
    max_lateness: str
    max_ahead: str
    topic: str | None
    paths: Mapping[str, str]
    required: Sequence[str]
    allow_nan: Sequence[str]
    history: str | None
    history_until: str | None
    owner: str | None


class ViewOptions(TypedDict, total=False):
    """Arguments of sw.FeatureView but its features."""

    name: str
    source: sw.KafkaSource
    entity: Sequence[str]
    where: str | None
    columns: Mapping[str, str]
    slice: str | None
    spread: bool
    owner: str | None


class ViewFields(ViewOptions, total=False):
    """Arguments of sw.FeatureView."""

    features: Sequence[sw.Feature]
