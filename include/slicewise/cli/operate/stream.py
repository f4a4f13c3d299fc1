"""start, stop or show the drivers of stream and real-time lane (Airflow's ingest_stream and
stop_stream do the same)"""

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
        status = stream.stream_status(settings)
    else:
        status = (
            stream.ensure_stream(settings)
            if arguments.action == "ensure"
            else stream.stream_status(settings)
        )
    realtime = stream.driver_status(settings, stream.REALTIME)
    print(
        json.dumps(
            {
                **_json_of(status),
                "tail": _json_of(realtime)
                if settings.realtime == "on" or realtime.running
                else None,
            }
        )
    )
    return 0


def _json_of(driver: DriverProcess) -> dict[str, object]:
    return {**dataclasses.asdict(driver), "well": driver.well}
