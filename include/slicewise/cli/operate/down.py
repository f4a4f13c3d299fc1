"""stop all that runs, the stream and Airflow's children included, or the named services alone

A service that is named stays down until `slicewise up` starts it: the watcher leaves alone what was
stopped here. What is Airflow's (stream, tail, emit, probes) it starts again: pause `ingest_stream`,
or run `stop_stream`.

  slicewise down             all; no process is left
  slicewise down redis       one server (redis: all nodes of the store)
  slicewise down watch       nobody starts servers again that die, until the next slicewise up
"""

from __future__ import annotations

import argparse

from slicewise.cli.operate.up import notify
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "service",
        nargs="*",
        help="only these: redis (all nodes), kafka, serving, airflow, watch, …",
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.local.servers import supervisor

    supervisor.down(settings, notify, only=arguments.service or None)
    return 0
