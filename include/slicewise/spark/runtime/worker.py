"""Code of tasks, which every Python worker has imported before it is forked."""

from __future__ import annotations

import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
