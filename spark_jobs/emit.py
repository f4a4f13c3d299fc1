"""The emission's driver: publishes window results of views with `emit=` until it is told to stop.

    python spark_jobs/emit.py

SIGTERM drains: what was published stands, and its progress with it, exit code 0. Settings come from
the environment.
"""

from __future__ import annotations

import sys

from slicewise.clock import SystemClock
from slicewise.settings import Settings
from slicewise.spark.emission.driver import EmissionDriver
from slicewise.spark.runtime.log import to_stderr

if __name__ == "__main__":
    to_stderr()
    sys.exit(EmissionDriver(Settings.load(), SystemClock()).run())
