"""stop all that runs and forget everything that it kept"""

from __future__ import annotations

import argparse

from slicewise.cli.operate.up import notify
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.local.servers import supervisor

    del arguments
    supervisor.clean(settings, notify)
    return 0
