"""find keys of the online store without or with over-long expiry, set them right, report"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from slicewise.settings import Settings, urls_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="report only")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")


def _verdict(
    judge: Callable[..., Any],
    rules: Any,
    key: bytes,
    expires_at_s: int | None,
    now_us: int,
    fields: Any,
) -> Any:
    return judge(key, expires_at_s, now_us, rules, fields)


def _add(
    views: dict[str, Counter[str]],
    units: Mapping[str, tuple[int, int]],
    manifest: Mapping[str, Any],
) -> None:
    """Adds a node's keys and bytes by unit to those by view."""
    named = {str(unit["storage_fingerprint"]): str(unit["view"]) for unit in manifest["units"]}
    for unit, (keys, size) in units.items():
        view = named.get(unit.partition(".")[0], "retired")
        views.setdefault(view, Counter()).update({"keys": keys, "bytes": size})


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.lifecycle.sweep import Finding, rules_of, unit_of, verdict
    from slicewise.stores.online.redis import sweep as store

    counts: Counter[str] = Counter()
    views: dict[str, Counter[str]] = {}
    deployed = False
    for url in urls_of(settings.redis_url):  # of each node by its own metadata
        current = store.deployed(url)
        if current is None:
            continue
        deployed, rules = True, rules_of(current.metadata, current.manifest)
        memory = store.UnitMemory(unit_of)
        counts += store.sweep(
            url,
            current,
            partial(_verdict, verdict, rules),
            dry_run=arguments.dry_run,
            progress=lambda scanned: print(f"scanned {scanned} keys", file=sys.stderr),
            memory=memory,
        )
        _add(views, memory.estimated(), current.manifest)
    report: dict[str, object] = {
        "deployed": deployed,
        "scanned": counts["scanned"],
        **{finding.value: counts[finding.value] for finding in Finding},
        "changed": counts["changed"],
        "dry_run": arguments.dry_run,
        "memory": {view: dict(views[view]) for view in sorted(views)},
    }
    if arguments.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<15} {value}")
    return 0
