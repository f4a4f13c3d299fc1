"""show each part as it is now; exits with 1 unless all that is always on is up"""

from __future__ import annotations

import argparse
import dataclasses
import json

from slicewise.local import supervisor
from slicewise.local.services import ON_DEMAND
from slicewise.local.supervisor import ServiceStatus
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    rows = supervisor.status(settings)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
    else:
        for row in rows:
            print(_line(row))
    return 0 if all(row.state in ("up", "external") for row in rows if row.name not in ON_DEMAND) else 1


def _line(row: ServiceStatus) -> str:
    uptime = "" if row.uptime_s is None else _span(row.uptime_s)
    memory = "" if row.memory_bytes is None else f"{row.memory_bytes / 2**20:.0f} MiB"
    pid = "" if row.pid is None else str(row.pid)
    said = row.detail or row.address
    return f"{row.name:<8} {row.state:<8} {pid:>8} {uptime:>8} {memory:>9}  {said}".rstrip()


def _span(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{left:02}s"
