"""A drain waits for the batch that runs, and for none that begins meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from slicewise.spark.microbatch.streaming import SourceQuery


def test_a_batch_that_begins_while_the_query_is_stopped_does_nothing_and_holds_nobody_up(
    tmp_path: Path,
) -> None:
    query = object.__new__(SourceQuery)
    query._draining, query._between, query._begun = threading.Event(), threading.Lock(), 0.0
    query.paced, query._checkpoint, query._log = False, tmp_path / "none", None  # type: ignore[assignment]

    class Spark:
        """Spark whose stop interrupts its thread, which ignores that within a batch, and waits for
        it."""

        stuck: bool | None = None

        def stop(self) -> None:
            batch = threading.Thread(target=query._batch, args=(None, 7), daemon=True)
            batch.start()
            batch.join(10)
            self.stuck = batch.is_alive()

    class Store:
        def close(self) -> None:
            """Nothing was applied: whatever else is asked of it fails."""

    spark: Any = Spark()
    query.query, query._store = spark, Store()  # type: ignore[assignment]
    query.drain()
    assert spark.stuck is False
