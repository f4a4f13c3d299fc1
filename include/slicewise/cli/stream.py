"""start, stop or show the stream's driver (Airflow's ingest_stream and stop_stream do the same)"""

from __future__ import annotations

import argparse
import dataclasses
import json

from slicewise.local import stream
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("ensure", "stop", "status"))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    if arguments.action == "stop":
        stream.stop_stream(settings)
        found = stream.stream_status(settings)
    else:
        found = stream.ensure_stream(settings) if arguments.action == "ensure" else stream.stream_status(settings)
    print(json.dumps({**dataclasses.asdict(found), "well": found.well}))
    return 0
