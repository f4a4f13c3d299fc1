"""Rules of what is logged: answers of feature sets that say so, of a share of their entities."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import xxhash

from slicewise.client.answers import Entity
from slicewise.features.plan.deployment import Deployment, VersionedKind, base_of, version_of

_SORTED = msgspec.json.Encoder(order="sorted")
_ALL = 1 << 64


def entity_text(entity: Entity) -> bytes:
    """JSON of an entity, the same for every order of its columns."""
    return _SORTED.encode(entity)


@dataclass(frozen=True)
class Rule:
    """Logging of a feature set under a deployment. below: hashes that are logged; versions: numbers
    of the set and its views, of those that have had several."""

    topic: str
    below: int
    deployment: str
    versions: str

    def takes(self, entity: bytes) -> bool:
        """Tells whether answers of this entity are logged, whoever is asked, and whenever."""
        return self.below == _ALL or xxhash.xxh64_intdigest(entity) < self.below


def rule_of(deployment: Deployment, digest: str, name: str) -> Rule | None:
    """The rule of a feature set; None of one that logs nothing. digest: the deployment's."""
    chosen = deployment.feature_set(name)
    if chosen.log is None:
        return None
    views = dict.fromkeys(ref.partition(":")[0] for ref in chosen.features)
    versions = [
        _numbered(deployment, "feature set", chosen.name),
        *(_numbered(deployment, "view", view) for view in views),
    ]
    return Rule(
        deployment.topic_of(chosen.log),
        int(chosen.log_rate * _ALL),
        digest,
        " ".join(filter(None, versions)),
    )


def _numbered(deployment: Deployment, kind: VersionedKind, name: str) -> str:
    base = base_of(name)
    live = deployment.live_version(kind, base)
    return "" if live.newest < 2 else f"{base}@{version_of(name) or live.live}"
