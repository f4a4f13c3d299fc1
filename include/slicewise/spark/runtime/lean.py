"""A session without what pyspark imports for others.

Pyspark 4.1 asks for pandas before each `mapInArrow`, which needs Arrow alone. It asks of each
argument that it hands to Java whether it is an array of numpy's, by a module of its tests' helpers:
that imports unittest, and pandas again. Together they are half a second of processor time between a
driver's start and its first events.
"""

from __future__ import annotations

import pyspark.sql.types  # noqa: F401  # it registers what is taken away here
from py4j import protocol
from pyspark.sql.pandas import functions


def lean() -> None:
    """Lets this process make a session, and frames, without pandas. Arguments of numpy's own types
    are refused by the JVM from then on."""
    plain = [one for one in protocol.INPUT_CONVERTER if not type(one).__name__.startswith("Numpy")]
    protocol.INPUT_CONVERTER[:] = plain
    functions.require_minimum_pandas_version = _nothing


def _nothing() -> None:
    """Asks for nothing."""
