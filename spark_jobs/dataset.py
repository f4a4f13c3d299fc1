"""Answers the rows of a data set that one process has no room for.

    python spark_jobs/dataset.py FOLDER

`slicewise dataset build --engine spark` writes the folder, starts this, and makes the data set of
the values that it leaves there. The last line of standard output is the report.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from slicewise.errors import SlicewiseError
from slicewise.log import to_stderr, warning
from slicewise.settings import Settings
from slicewise.spark.lake.job import session_of


def cause_of(text: str) -> str:
    """The innermost cause of an error of Spark: of a chain of them the last, else the first
    line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else (lines or ["it says nothing"])[0]


def _end_with_input() -> None:
    """Ends this process, and with it its JVM, when whoever began it is gone."""
    while os.read(0, 1024):  # a thread that holds sys.stdin would be in the way of an end
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the request")
    parser.add_argument(
        "--watched", action="store_true", help="end when standard input does: nobody waits any more"
    )
    given = parser.parse_args()
    to_stderr()
    if given.watched:
        threading.Thread(target=_end_with_input, daemon=True).start()
    settings = Settings.load()
    imports = ("slicewise.spark.datasets.answering", "slicewise.stores.lake.catalog")
    with session_of(settings, "dataset", imports, pandas=False) as session:
        from slicewise.spark.datasets.answering import answer_request
        from slicewise.stores.lake.catalog import open_catalog

        try:
            catalog = open_catalog(settings)
            report = answer_request(session, settings, catalog, given.folder)
        except SlicewiseError as error:
            warning("job_failed", job="dataset", lasting=error.lasting, error=str(error))
            sys.stderr.write(f"{error}\n")
            return 1
        except Exception as error:  # noqa: BLE001  # Spark's, of many kinds
            sys.stderr.write(f"{error}\n")
            warning("job_failed", job="dataset", error=type(error).__name__)
            sys.stderr.write(f"{cause_of(str(error))}\n")
            return 1
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
