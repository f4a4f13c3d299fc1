"""start the embedded servers that do not run, and wait until all are well

Beside them a watcher is started, which brings back servers that die: at once, and ever later while
one dies again. What `slicewise down` stopped it leaves alone. `SLICEWISE_WATCH=off` leaves it out.

  slicewise up               all that are always on, and the watcher
  slicewise up redis kafka   these alone, without the watcher
  slicewise up watch         the watcher alone
"""

from __future__ import annotations

import argparse

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "service", nargs="*", help="only these: redis (all nodes), kafka, serving, airflow, watch"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.local.servers import supervisor

    supervisor.up(settings, notify, only=arguments.service or None)
    return 0


def notify(line: str) -> None:
    print(line, flush=True)
