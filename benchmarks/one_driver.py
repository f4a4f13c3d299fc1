"""Both lanes in one process and one session of Spark: what that would save, beside the two that
slicewise has.

    python -m benchmarks.one_driver          by Spark's Python; settings from the environment

Nobody runs it so: a failed task of the real-time lane must be its query's failure, and one of the
micro-batch lane is tried four times. `make bench-freshness BENCH="--only tail one"` compares them
(docs/adr/0056).
"""

from __future__ import annotations

import sys
import threading

from slicewise.clock import SystemClock
from slicewise.settings import Settings
from slicewise.spark.driver import Driver
from slicewise.spark.realtime.driver import RealtimeDriver
from slicewise.spark.runtime.log import to_stderr
from slicewise.spark.runtime.session import stream_session

SLOTS = 34
"""Two of the micro-batch lane, and what the real-time lane's own session has at least."""


class _Realtime(RealtimeDriver):
    """In a thread of its own, and in the micro-batch lane's session."""

    def _obey_signals(self) -> None:
        """Only a main thread can."""

    def _close(self) -> None:
        """The session is the micro-batch lane's."""


class _Both(Driver):
    """The micro-batch lane, which starts the real-time lane once there is a session, and ends it
    before that."""

    def _open(self) -> None:
        self._session = stream_session(self.settings, SLOTS)
        self._realtime = _Realtime(self.settings, self.clock, self.stop)
        self._thread = threading.Thread(target=self._realtime.run, name="tail")
        self._thread.start()

    def _close(self) -> None:
        self.stop.set()
        self._thread.join()
        super()._close()


if __name__ == "__main__":
    to_stderr()
    sys.exit(_Both(Settings.load(), SystemClock()).run())
