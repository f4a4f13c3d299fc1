"""A figure means something only beside the machine that it was measured on, and how busy that
was."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

BUSY = 0.5
"""Load per core above which a run is called noisy."""


def facts(redis_binary: Path) -> dict[str, Any]:
    """Processor, memory, versions, and the load before anything starts."""
    load = os.getloadavg()
    cores = os.cpu_count() or 1
    return {
        "processor": _processor(),
        "cores": cores,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "redis": _redis(redis_binary),
        "load_1m_5m_15m": [round(minutes, 2) for minutes in load],
        "noisy": load[0] / cores > BUSY,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _redis(binary: Path) -> str:
    output = subprocess.run(
        [str(binary), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return " ".join(output.split()[:3])
