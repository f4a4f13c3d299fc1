"""The stream's driver: applies every deployed source's events to the online store until it is told
to stop.

    python spark_jobs/stream.py

SIGTERM drains: the batch that runs is finished, the committed offsets advanced, exit code 0. Exit
code 3: records that were never applied are gone from the log; 4: another driver was started later,
and goes on. Settings come from the environment.
"""

from __future__ import annotations

import sys

from slicewise.clock import SystemClock
from slicewise.settings import Settings
from slicewise.spark.driver import Driver
from slicewise.spark.runtime.log import to_stderr

if __name__ == "__main__":
    to_stderr()
    sys.exit(Driver(Settings.load(), SystemClock()).run())
