"""find keys of the online store without or with over-long expiry, set them right, report"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="report only")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.lifecycle.sweep import Finding, rules_of, verdict
    from slicewise.stores.redis import sweep as store

    standing = store.deployed(settings.redis_url)
    found: Counter[str] = Counter()
    if standing is not None:
        rules = rules_of(standing.marks, standing.manifest)
        found = store.sweep(
            settings.redis_url,
            standing,
            lambda key, expires_at_s, now_us, fields: verdict(key, expires_at_s, now_us, rules, fields),
            dry_run=arguments.dry_run,
            progress=lambda scanned: print(f"scanned {scanned} keys", file=sys.stderr),
        )
    report: dict[str, object] = {
        "deployed": standing is not None,
        "scanned": found["scanned"],
        **{finding.value: found[finding.value] for finding in Finding},
        "changed": found["changed"],
        "dry_run": arguments.dry_run,
    }
    if arguments.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:<15} {value}")
    return 0
