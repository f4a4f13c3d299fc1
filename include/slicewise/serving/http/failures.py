"""A failure is counted, logged once a second for its kind, and answered in one shape."""

from __future__ import annotations

import time
import traceback

from slicewise import log
from slicewise.errors import Overloaded, SlicewiseError
from slicewise.serving.http import errors as http
from slicewise.serving.http.errors import Response, error_response
from slicewise.serving.metrics import Metrics

LOG_EVERY_S = 1.0


class Failures:
    """Failures of one process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: dict[str, tuple[float, int]] = {}
        """Kinds of failure: when each was logged last, and how many came since."""

    def response(self, error: Exception, *, msgpack: bool = False) -> Response:
        """The response to a request that was refused, or over which the service broke."""
        if isinstance(error, SlicewiseError):
            self._count(error)
            return error_response(error, msgpack=msgpack)
        return error_response(self._defect(error), msgpack=msgpack)

    def _count(self, error: SlicewiseError) -> None:
        kind = type(error).__name__
        self._metrics.errors.labels(kind).inc()
        if http.status_of(error) >= 500 or isinstance(error, Overloaded):
            self._log(kind, error)

    def _log(self, kind: str, error: SlicewiseError) -> None:
        """One line a second for each kind: a service that refuses thousands of requests has other
        things to do."""
        logged_at, unlogged = self._logged.get(kind, (-LOG_EVERY_S, 0))
        now = time.monotonic()
        if now - logged_at < LOG_EVERY_S:
            self._logged[kind] = (logged_at, unlogged + 1)
            return
        self._logged[kind] = (now, 0)
        log.warning(
            "request_failed", kind=kind, what=error.what, where=error.where, and_before=unlogged
        )

    def _defect(self, error: Exception) -> SlicewiseError:
        lines = "".join(traceback.format_exception(error))
        log.warning("request_broke", kind=type(error).__name__, trace=lines)
        self._metrics.errors.labels("Defect").inc()
        return http.Defect(
            f"the service broke over this request: {type(error).__name__}",
            next_step="report it, with the time; the log has the trace",
        )
