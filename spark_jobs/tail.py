"""The real-time lane's driver: makes events visible as they come, until it is told to stop.

    python spark_jobs/tail.py

SIGTERM ends it at once, exit code 0: what it had not brought, the micro-batch lane brings. Settings
come from the environment.
"""

from __future__ import annotations

import sys

from slicewise.clock import SystemClock
from slicewise.settings import Settings
from slicewise.spark.realtime.driver import RealtimeDriver
from slicewise.spark.runtime.log import to_stderr

if __name__ == "__main__":
    to_stderr()
    sys.exit(RealtimeDriver(Settings.load(), SystemClock()).run())
