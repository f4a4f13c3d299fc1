"""A process that is to do without pandas imports none for an array, and can import it all the
same."""

from __future__ import annotations

import subprocess
import sys

import pytest

ARRAYS = """
import sys
import pyarrow as pa, pyarrow.compute as pc
from slicewise.arrow import without_pandas
{before}
pa.array([1, None]); pa.scalar("x"); pc.equal(pa.array([1.5]), 1.5); pa.table({{"a": [b"x"]}})
print("pandas" in sys.modules)
"""


def printed(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.parametrize(("before", "imported"), [("", "True"), ("without_pandas()", "False")])
def test_an_array_imports_pandas_unless_the_process_does_without(
    before: str, imported: str
) -> None:
    assert printed(ARRAYS.format(before=before)) == imported


def test_a_process_without_pandas_can_import_it_and_make_frames() -> None:
    later = "without_pandas()\nfor _ in range(2): without_pandas()"
    frames = "print(pa.table({'a': [1, 2]}).to_pandas()['a'].sum())\nimport pandas"
    assert printed(ARRAYS.format(before=later) + frames).split() == ["False", "3"]


def test_a_process_that_has_pandas_keeps_it() -> None:
    series = "import pandas as pd; without_pandas()"
    nulls = "print(pa.array(pd.Series([1.0, float('nan')])).null_count)"
    assert printed(ARRAYS.format(before=series) + nulls).split() == ["True", "1"]
