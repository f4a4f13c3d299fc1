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


@dataclass
class Tally:
    """Keys and bytes by view and kind, as a sweep comes upon them."""

    names: dict[str, str] = field(default_factory=dict)
    """Unit's name in keys -> its view."""
    keys: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    size: Counter[tuple[str, str]] = field(default_factory=Counter)
    freed: int = 0
    shortened: int = 0

    def see(self, key: bytes, verdict: Verdict, size: int) -> None:
        unit, kind = unit_and_kind(key)
        group = (self.names.get(unit, f"(unit {unit}, not deployed)") if unit else "", kind)
        self.keys[group] += 1
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


def sweep_nodes(settings: Settings, *, dry_run: bool) -> dict[str, Any]:
    """The report of a sweep over all nodes."""
    counts: Counter[str] = Counter()
    tally, deployed = Tally(), False
    views: dict[str, Counter[str]] = {}
    urls = urls_of(settings.redis_url)
    before = [store.usage(url) for url in urls]
    for url in urls:  # of each node by its own metadata
        current = store.deployed(url)
        if current is None:
            continue
        deployed, rules = True, rules_of(current.metadata, current.manifest)
        for unit in current.manifest.get("units") or ():
            name = current.metadata.name(str(unit["storage_fingerprint"]))
            tally.names[name] = str(unit["view"])
        memory = store.UnitMemory(lambda key: unit_and_kind(key)[0])
        counts += store.sweep(
            url,
            current,
            _Decide(rules),
            dry_run=dry_run,
            progress=lambda scanned: print(f"scanned {scanned} keys", file=sys.stderr),
            seen=tally.see,
            memory=memory,
        )
        for unit, (keys, size) in memory.estimated().items():
            view = tally.names.get(unit, "retired")
            views.setdefault(view, Counter()).update({"keys": keys, "bytes": size})
    after = before if dry_run else [store.usage(url) for url in urls]
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
        "memory": {view: dict(views[view]) for view in sorted(views)},
    }


@dataclass(frozen=True)
class _Decide:
    rules: SweepRules

    def __call__(
        self, key: bytes, expires_at_s: int | None, now_us: int, fields: Sequence[bytes] | None
    ) -> Verdict:
        return verdict(key, expires_at_s, now_us, self.rules, fields)


def _usage(when: str, nodes: Sequence[tuple[int, int]]) -> Mapping[str, int]:
    return {
        f"keys_{when}": sum(keys for keys, _ in nodes),
        f"bytes_{when}": sum(size for _, size in nodes),
    }
