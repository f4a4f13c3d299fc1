"""A Python task costs what its work costs: nothing is imported, scanned or collected per task.

Spark's own daemon leaves pyspark.zip and a jar on sys.path, which every task re-reads through
importlib.invalidate_caches(), and collects garbage over all that was imported after every task.
Here archives leave the path, our code is imported once before the first fork, and what was
imported is frozen out of the collector's sight (docs/adr/0011).
"""

from __future__ import annotations

import gc
import importlib
import sys

from slicewise.arrow import without_pandas

_ARCHIVES = (".zip", ".jar")
_WARM = ("numpy", "pyarrow", "pyarrow.compute", "slicewise.spark.runtime.worker")
YOUNG = 100_000
"""Objects that a task or a job makes before they are looked through: an attempt of a micro-batch
makes so many, as do the values of a check, and they are no garbage while it goes on."""


def leave_archives() -> None:
    """Drop archives from the import path: pyspark is installed as a package."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(_ARCHIVES)]
    for entry in list(sys.path_importer_cache):
        if ".zip" in entry or ".jar" in entry:
            del sys.path_importer_cache[entry]


def main() -> None:
    """Serve Spark's requests for workers until its JVM closes our standard input."""
    leave_archives()
    daemon = importlib.import_module("pyspark.daemon")
    for name in _WARM:
        importlib.import_module(name)
    without_pandas()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    daemon.manager()


if __name__ == "__main__":
    main()
