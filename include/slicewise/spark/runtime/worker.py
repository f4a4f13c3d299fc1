"""What every Python worker has imported before it is forked: the code that tasks run."""

from __future__ import annotations

import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
