"""print where the servers are, for a shell: eval "$(slicewise env)"

eval "$(slicewise env)"                               sets the addresses in this shell
curl -s "$SLICEWISE_SERVING_URL/healthz"              asks the prediction API
kcat -b "$SLICEWISE_KAFKA_BOOTSTRAP" -L               any client of Kafka finds the broker
slicewise env --json                                  for programs
"""

from __future__ import annotations

import argparse
import json
import shlex

from slicewise.settings import Settings

SHOWN = ("kafka_bootstrap", "serving_url", "airflow_url")
"""The store is not among them: its address may hold a password, and sw.Client finds it by
itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    variables = {f"SLICEWISE_{name.upper()}": str(getattr(settings, name)) for name in SHOWN}
    if arguments.json:
        print(json.dumps(variables))
        return 0
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0
