"""start the embedded servers that do not run, and wait until all are well"""

from __future__ import annotations

import argparse

from slicewise.local import supervisor
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", nargs="*", help="only these: redis (all nodes), kafka, serving, airflow")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    supervisor.up(settings, say, only=arguments.service or None)
    return 0


def say(line: str) -> None:
    print(line, flush=True)
