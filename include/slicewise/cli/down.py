"""stop all that runs, the stream and Airflow's children included"""

from __future__ import annotations

import argparse

from slicewise.cli.up import say
from slicewise.local import supervisor
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    del arguments
    supervisor.down(settings, say)
    return 0
