"""start, stop or show the drivers of stream and tail (Airflow's ingest_stream and stop_stream do the same)"""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.local.servers.stream import DriverProcess


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("ensure", "stop", "status"))


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.local.servers import stream

    if arguments.action == "stop":
        stream.stop_stream(settings)
        found = stream.stream_status(settings)
    else:
        found = stream.ensure_stream(settings) if arguments.action == "ensure" else stream.stream_status(settings)
    tail = stream.driver_status(settings, stream.TAIL)
    print(json.dumps({**_told(found), "tail": _told(tail) if settings.tail == "on" or tail.running else None}))
    return 0


def _told(driver: DriverProcess) -> dict[str, object]:
    return {**dataclasses.asdict(driver), "well": driver.well}
