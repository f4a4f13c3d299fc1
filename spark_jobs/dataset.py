"""Answers the rows of a data set that one process has no room for.

    python spark_jobs/dataset.py FOLDER

`slicewise dataset build --engine spark` writes the folder, starts this, and makes the data set of
the values that it leaves there. The last line of standard output is the report.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from slicewise.errors import SlicewiseError
from slicewise.log import to_stderr, warning
from slicewise.settings import Settings
from slicewise.spark.lake.job import session_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the request")
    given = parser.parse_args()
    to_stderr()
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
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
