"""Leaves the classes of the embedded broker in an archive beside its jars, so that each broker
starts in half the time.

    .venvs/platform/bin/python requirements/broker_classes.py

Where this Java can make none, brokers start without it, and set-up goes on. An image is set up
before our sources come: it has no embedded broker.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    if not (ROOT / "include" / "slicewise" / "local").is_dir():
        return 0
    from slicewise.errors import ServerError
    from slicewise.local.servers.kafka import make_archive
    from slicewise.settings import Settings

    # a set-up that is ended takes its broker along
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        # not the platform's settings: they are about what runs, and set-up is about this folder
        make_archive(Settings.load({"SLICEWISE_HOME": str(ROOT)}, cwd=ROOT))
    except (ServerError, OSError) as error:
        again = "rm .jars/.made-kafka-classes-* before make setup tries again"
        sys.stderr.write(f"setup: {error}\n  again: {again}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
