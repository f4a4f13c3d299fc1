"""find keys of the online store without or with over-long expiry, set them right, report"""

from __future__ import annotations

import argparse
import json

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="report only")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.sweeping import sweep_nodes
    from slicewise.lifecycle.reports import table

    report = sweep_nodes(settings, dry_run=arguments.dry_run)
    if arguments.json:
        print(json.dumps(report))
        return 0
    kinds = report.pop("kinds")
    memory = [{"view": view} | figures for view, figures in report.pop("memory").items()]
    for name, value in report.items():
        print(f"{name:<15} {value}")
    print("\n".join(table(kinds, ("view", "kind", "keys", "found", "found_bytes"))))
    print("\n".join(table(memory, ("view", "keys", "bytes"))))
    return 0
