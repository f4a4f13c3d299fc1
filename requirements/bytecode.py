"""Compiles an environment's packages, or our own sources, so that no process has to do it at its
start.

    .venvs/spark/bin/python requirements/bytecode.py installed
    .venvs/platform/bin/python requirements/bytecode.py ours include dags plugins

Where writing bytecode is forbidden (PYTHONDONTWRITEBYTECODE) a process that finds none compiles all
that it imports, each time anew. What is found is read all the same.
"""

from __future__ import annotations

import compileall
import re
import sys
import sysconfig
from collections.abc import Sequence
from py_compile import PycInvalidationMode

# No process of the platform imports these; to compile them would be half of the work. Paths are
# whole ones: where the project itself stands, say below /home/me/test/, leaves nothing out.
LEFT_OUT = re.compile(
    r"/site-packages/(?:(?:[^/]+/)*"
    r"(?:tests?|testing/_private|lexers|styles|hive_metastore|mypy|mypyc|libcst|altair|schemathesis|lib2to3)/"
    r"|polars/(?!_)|(?:pip|setuptools)/)"
)


def main(arguments: Sequence[str]) -> int:
    """0 where everything was compiled; a file of a package that is no Python 3.11 stops nothing."""
    sys.pycache_prefix = None  # beside the sources, where every process looks that we start
    kind, *folders = arguments
    if kind == "installed":
        # as pip and uv install them: newer than none of their sources, until one is replaced
        site = sysconfig.get_path("purelib")
        compileall.compile_dir(
            site, quiet=2, rx=LEFT_OUT, invalidation_mode=PycInvalidationMode.TIMESTAMP
        )
        return 0
    # an edit within the second, or a checkout of the same size, is seen by the text alone
    hashed = PycInvalidationMode.CHECKED_HASH
    done = [
        compileall.compile_dir(folder, quiet=1, force=True, invalidation_mode=hashed)
        for folder in folders
    ]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
