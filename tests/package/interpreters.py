"""The interpreters of this machine on which the package is tried."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")
"""Versions that `requires-python` promises."""


@cache
def interpreters() -> dict[str, str]:
    """Version -> an interpreter of it that runs; those that are not here are left out."""
    candidates = {version: _candidates(version) for version in VERSIONS}
    paths = {
        version: next(filter(lambda path: _runs(path, version), paths), None)
        for version, paths in candidates.items()
    }
    return {version: path for version, path in paths.items() if path is not None}


def _candidates(version: str) -> list[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = f"{sys.base_prefix}/bin/python{version}"
    on_path = shutil.which(f"python{version}")
    return [
        own,
        *([on_path] if on_path else []),
        *map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"))),
    ]


def _runs(path: str, version: str) -> bool:
    try:  # a shim of pyenv stands on the PATH whether or not it leads anywhere
        done = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except OSError:
        return False
    return done.stdout.strip() == version
