"""A service is data: how it is started, how it shows that it is well, how it is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slicewise.local.servers.ports import HOST
from slicewise.local.servers.process import SERVICE
from slicewise.settings import Settings

Health = Callable[[int], str | None]
"""Check of the service's pid: why it is not well, or None if it is."""

# What would let a child find another environment's modules or a stranger's Airflow, or lead it away
# from the bytecode that set-up made.
_DROPPED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONPYCACHEPREFIX",
    "VIRTUAL_ENV",
    "SPARK_HOME",
    "CLASSPATH",
)


@dataclass(frozen=True)
class Service:
    """One embedded server, or one part of slicewise that runs for long."""

    name: str
    argv: tuple[str, ...]
    cwd: Path
    health: Health
    address: str
    """Address that a person opens or a client connects to."""
    env: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Variables that the process is not given: it asks the state folder, each time, where our
    servers are."""
    prepare: Callable[[], None] = lambda: None
    """Writes configuration; runs before each start, with the service down."""
    after: tuple[str, ...] = ()
    """Services that must be well before this one starts."""
    stop_order: int = 0
    """Lower ones are gone before higher ones are asked to stop."""
    stop_signal: signal.Signals = signal.SIGTERM
    start_timeout_s: float = 60.0
    stop_timeout_s: float = 20.0
    """Seconds that it may take to stop by itself before all of its processes are terminated."""
    always_on: bool = True
    """Started by `up`; the others are started by their owner, and stopped by `down` all the
    same."""

    def environment(self, settings: Settings) -> dict[str, str]:
        """All variables of the process."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in _DROPPED and not name.startswith(("AIRFLOW_", "_AIRFLOW", "SLICEWISE_"))
        }
        # Spark would listen on the machine's outer address
        spark = {"SPARK_LOCAL_IP": HOST} if settings.spark_master.startswith("local") else {}
        return {
            **kept,
            **spark,
            "PYTHONUNBUFFERED": "1",
            # setproctitle writes over the variables by which a process is found again
            "SPT_NOENV": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            **{
                name: value for name, value in settings.to_env().items() if name not in self.without
            },
            SERVICE: self.name,
            **self.env,
        }
