"""Leaves the classes of the embedded broker in an archive beside its jars, so that each broker
starts in half the time.

    .venvs/platform/bin/python requirements/broker_classes.py

Where this Java can make none, brokers start without it, and set-up goes on.
"""

from __future__ import annotations

import sys

from slicewise.errors import ServerError
from slicewise.local.servers.kafka import make_archive
from slicewise.settings import Settings


def main() -> int:
    try:
        make_archive(Settings.load())
    except (ServerError, OSError) as error:
        sys.stderr.write(f"setup: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
