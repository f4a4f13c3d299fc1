"""start, stop, drain, restart or show the drivers (as Airflow's ingest_stream, stop_stream,
drain_stream and restart_stream do)

  slicewise stream ensure                    starts what does not run
  slicewise stream stop                      each finishes its batch and ends
  slicewise stream drain --wait-s 600        waits until all that the log holds now is applied, then
                                             stops; --no-stop: waits alone
  slicewise stream restart --only tail       one driver (stream, tail, emit, probes); all without it
  slicewise stream status
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.local.servers.stream import DriverProcess

DRIVERS = ("stream", "tail", "emit", "probes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("ensure", "stop", "drain", "restart", "status"))
    parser.add_argument(
        "--only",
        action="append",
        choices=DRIVERS,
        help="of restart: this driver; may be given again",
    )
    parser.add_argument(
        "--wait-s",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="of drain: longest that it waits (default: 300)",
    )
    parser.add_argument("--no-stop", action="store_true", help="of drain: stop nothing afterwards")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.local.servers import stream

    more: dict[str, object] = {}
    if arguments.action == "drain":
        with bars(_notify) as shown:
            applied = stream.await_applied(settings, arguments.wait_s, shown)
        more["applied"] = applied
    if arguments.action == "restart":
        stream.restart(settings, arguments.only or DRIVERS)
    if arguments.action == "stop" or (arguments.action == "drain" and not arguments.no_stop):
        stream.stop_stream(settings)
    status = (
        stream.ensure_stream(settings)
        if arguments.action == "ensure"
        else stream.stream_status(settings)
    )
    realtime = stream.driver_status(settings, stream.REALTIME)
    wanted = settings.realtime == "on" or realtime.running
    print(json.dumps({**_json_of(status), "tail": _json_of(realtime) if wanted else None, **more}))
    return 0


def _notify(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _json_of(driver: DriverProcess) -> dict[str, object]:
    return {**dataclasses.asdict(driver), "well": driver.well}
