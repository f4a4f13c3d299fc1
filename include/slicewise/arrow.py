"""A process of our own does without pandas, which pyarrow would import for it.

Where pandas is installed, pyarrow 26 imports it before it makes its first array: half a second of
processor time and 40 MB in each process, and in each Python worker of Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


def without_pandas() -> None:
    """Lets pyarrow look for pandas now and find none; it looks once.

    For a process that converts no value of pandas. One that imports pandas later has it, and
    pyarrow makes frames of tables for it, but takes no frame or series that it is given.
    """
    import pyarrow as pa

    if _PANDAS in sys.modules:
        return
    none = _None()
    sys.meta_path.insert(0, none)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(none)


class _None(MetaPathFinder):
    """Finds that pandas is not installed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None
