"""A command pays at its start for what it does, not for what the others could do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
IMPORTED = """
import contextlib, io, json, sys
from slicewise import cli
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    cli.main(sys.argv[1:])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names)))
"""


def imported(tmp_path: Path, *arguments: str) -> set[str]:
    """The third-party packages that a command imports, and slicewise."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        cwd=ROOT / "examples" / "flights",
        env={"SLICEWISE_STATE": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    return {
        name
        for name in json.loads(done.stdout)
        if not name.startswith("_") and name != "sitecustomize"
    }


def test_help_imports_nothing_but_slicewise(tmp_path: Path) -> None:
    assert imported(tmp_path, "--help") == {"slicewise"}


def test_check_imports_what_computes_and_nothing_that_serves_or_stores(tmp_path: Path) -> None:
    base = {"slicewise", "duckdb", "msgpack", "numpy", "pyarrow", "sqlglot", "xxhash"}
    # pyarrow looks for pandas and cloudpickle, pandas for its own, and compiled sqlglot for one,
    # where they are installed
    optional = {"pandas", "dateutil", "pytz", "six", "cython_runtime", "tzdata", "mypy_extensions"}
    optional |= {"cloudpickle"}
    assert imported(tmp_path, "check") - optional == base
