"""`python -m slicewise.training.jobs` works the training sets that the API's clients requested.

The API starts it, and it ends with the API.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from slicewise import log
from slicewise.clock import SystemClock
from slicewise.extras import needed
from slicewise.settings import Settings
from slicewise.stores.jobs.folder import FOLDER, JobFolder

NICE = 10
"""By so much the process gives way to the API's own."""


@needed("training", "training sets over HTTP")
def main() -> None:
    """Works until nothing waits, or the API ends."""
    import slicewise.stores.lake.catalog  # noqa: F401  # said at once where it is not installed
    from slicewise.training.jobs.worker import Worker

    log.to_stderr()
    os.nice(NICE)
    with suppress(OSError):  # where memory ends, this process goes first, and no server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    settings = Settings.load()
    folder = JobFolder(settings.state_dir / FOLDER)
    Worker(settings, folder, SystemClock()).run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
