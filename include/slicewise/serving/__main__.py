"""`python -m slicewise.serving` answers until it is told to stop, then finishes what it began."""

from __future__ import annotations

import os
import signal
import sys
from urllib.parse import urlsplit

from slicewise import log
from slicewise.errors import MissingExtra, SettingsError
from slicewise.extras import needed
from slicewise.settings import Settings

GRACE_S = 10
WORKERS = "SLICEWISE_SERVING_WORKERS"


def main() -> None:
    """Listens where the setting serving_url says."""
    with needed("serving", "python -m slicewise.serving"):
        import uvicorn
    log.to_stderr()
    settings = Settings.load()
    address = urlsplit(settings.serving_url)
    workers = _workers(os.environ.get(WORKERS, "1"))
    host, port = address.hostname or "127.0.0.1", address.port or 8000
    # uvicorn finishes what runs, then raises the signal once more: having been told to stop is
    # no failure
    signal.signal(signal.SIGTERM, lambda *_: None)
    log.event("serving_starts", host=host, port=port, workers=workers)
    uvicorn.run(
        "slicewise.serving.http.app:create",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        loop="slicewise.serving.connection.loop:Loop",
        http="slicewise.serving.http.protocol:Protocol",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        # a gateway says who the client is in a header of its own, or nobody does
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    log.event("serving_stopped")


def _workers(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 64:
        raise SettingsError(
            f"{text!r} workers",
            where=WORKERS,
            expected="a number from 1 to 64",
            next_step="correct the variable, or leave it out",
        )
    return int(text)


if __name__ == "__main__":
    try:
        main()
    except MissingExtra as error:
        sys.exit(str(error))
