"""A sweep of all nodes of the online store counts keys and bytes by view and kind."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.lifecycle.sweep import (
    Finding,
    SweepRules,
    Verdict,
    rules_of,
    unit_and_kind,
    verdict,
)
from slicewise.settings import Settings, urls_of
from slicewise.stores.online.redis import sweep as store
from slicewise.stores.online.redis.status import NodeUsage, read_usage

EVERY = 50
"""Keys of a unit of which one is measured, the first among them: to measure all would take as many
commands."""


@dataclass
class Tally:
    """Keys and bytes by view and kind, as a sweep comes upon them."""

    names: dict[str, str] = field(default_factory=dict)
    """Unit's name in keys -> its view."""
    keys: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    size: Counter[tuple[str, str]] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    """Keys by unit."""
    measured: Counter[str] = field(default_factory=Counter)
    sample: Counter[str] = field(default_factory=Counter)
    """Keys by unit whose bytes were measured, and these bytes."""
    freed: int = 0
    shortened: int = 0

    def measures(self, key: bytes, verdict: Verdict) -> bool:
        """Counts the key for its unit; wants the bytes of one that changes, and of a sample."""
        unit, _ = unit_and_kind(key)
        self.units[unit] += 1
        changes = verdict.delete or verdict.expire_at_s is not None
        return changes or (bool(unit) and self.units[unit] % EVERY == 1)

    def see(self, key: bytes, verdict: Verdict, size: int | None) -> None:
        """Counts what is found."""
        unit, kind = unit_and_kind(key)
        group = (self.names.get(unit, f"(unit {unit}, not deployed)") if unit else "", kind)
        self.keys[group] += 1
        if size is not None:
            self.measured[unit] += 1
            self.sample[unit] += size
        size = size or 0
        if verdict.name != Finding.WELL.value:
            self.wrong[group] += 1
            self.size[group] += size
        if verdict.delete:
            self.freed += size
        elif verdict.expire_at_s is not None:
            self.shortened += size

    def rows(self) -> list[dict[str, object]]:
        return [
            {"view": group[0], "kind": group[1], "keys": keys}
            | {"found": self.wrong[group], "found_bytes": self.size[group]}
            for group, keys in sorted(self.keys.items())
        ]

    def memory(self) -> dict[str, dict[str, int]]:
        """View -> its keys, and about how many bytes they take."""
        views: dict[str, Counter[str]] = {}
        for unit, keys in self.units.items():
            if unit:
                size = round(keys * self.sample[unit] / max(1, self.measured[unit]))
                of = views.setdefault(self.names.get(unit, "retired"), Counter())
                of.update({"keys": keys, "bytes": size})
        return {view: dict(views[view]) for view in sorted(views)}


def sweep_nodes(settings: Settings, *, dry_run: bool) -> dict[str, Any]:
    """The report of a sweep over all nodes."""
    counts: Counter[str] = Counter()
    tally, deployed = Tally(), False
    urls = urls_of(settings.redis_url)
    before = read_usage(settings.redis_url)
    for url in urls:  # of each node by its own metadata
        current = store.deployed(url)
        if current is None:
            continue
        deployed, rules = True, rules_of(current.metadata, current.manifest)
        for unit in current.manifest.get("units") or ():
            name = current.metadata.name(str(unit["storage_fingerprint"]))
            tally.names[name] = str(unit["view"])
        counts += store.sweep(
            url,
            current,
            _Decide(rules),
            dry_run=dry_run,
            progress=lambda scanned: print(f"scanned {scanned} keys", file=sys.stderr),
            seen=tally,
        )
    after = before if dry_run else read_usage(settings.redis_url)
    return {
        "deployed": deployed,
        "scanned": counts["scanned"],
        **{finding.value: counts[finding.value] for finding in Finding},
        "changed": counts["changed"],
        "dry_run": dry_run,
        "bytes_freed": tally.freed,
        "bytes_to_expire": tally.shortened,
        **_usage("before", before),
        **_usage("after", after),
        "kinds": tally.rows(),
        "memory": tally.memory(),
    }


@dataclass(frozen=True)
class _Decide:
    rules: SweepRules

    def __call__(
        self, key: bytes, expires_at_s: int | None, now_us: int, fields: Sequence[bytes] | None
    ) -> Verdict:
        return verdict(key, expires_at_s, now_us, self.rules, fields)


def _usage(when: str, nodes: Sequence[NodeUsage | None]) -> Mapping[str, int]:
    up = [node for node in nodes if node is not None]
    return {
        f"keys_{when}": sum(node.keys for node in up),
        f"bytes_{when}": sum(node.used_bytes for node in up),
    }
