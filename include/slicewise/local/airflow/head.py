"""Airflow's parts live and end together, and none of them is reached from outside this machine.

Run by the Airflow environment's Python as
`python -m slicewise.local.airflow.head <airflow program>`. It is `airflow standalone` with two
differences: the servers for task logs, which listen on every address and cannot be told otherwise,
are left out (on one machine the pages read the log files themselves); and the end of one part ends
the whole, where standalone goes on without it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from types import FrameType

PARTS = (
    ("scheduler", "--skip-serve-logs"),
    ("dag-processor",),
    ("api-server",),
    ("triggerer", "--skip-serve-logs"),
)
PATIENCE_S = 20.0


def main(airflow: str) -> int:
    """Brings the metadata database up to date, runs the parts; 0 if it was asked to stop."""
    migrated = subprocess.run([airflow, "db", "migrate"], check=False).returncode
    if migrated:
        return migrated
    stopping = False

    def on_stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    parts = {name: subprocess.Popen([airflow, name, *options]) for name, *options in PARTS}
    while not stopping and not (
        ended := [name for name, part in parts.items() if part.poll() is not None]
    ):
        time.sleep(0.2)
    if not stopping:
        sys.stderr.write(f"airflow_part_ended parts={','.join(ended)}\n")
    for part in parts.values():
        part.terminate()
    deadline = time.monotonic() + PATIENCE_S
    for part in parts.values():
        try:
            part.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            part.kill()
            part.wait()
    return 0 if stopping else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
