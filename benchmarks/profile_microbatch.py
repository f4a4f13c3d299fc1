"""Profile of a micro-batch: one task's batches of the benchmark's plays, applied in process over a
real Redis.

  .venvs/platform/bin/python -m benchmarks.profile_microbatch [--events N] [--batch N] [--lines N]

Prints events per second of this one process, in CPU and wall time, and the functions that took most
of it. A batch of 100,000 is what catching up hands to a task; one of 150 is what a task gets at
2,000 events/s.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.whole.servers import PROJECTS
from benchmarks.whole.windows import made
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.spark.microbatch.apply import Placed, SourceRows, batch_of
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.connecting import Initialise, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from tests.support.platform.stack import Stack

TOPIC_ID = "5" * 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument(
        "--lines",
        type=int,
        default=25,
        help="0: no profile, whose own cost is then not in the figures",
    )
    given = parser.parse_args()
    with TemporaryDirectory(prefix="slicewise-profile-") as folder:
        stack = Stack(Path(folder) / "state", PROJECTS / "plays")
        try:
            stack.up("redis")
            _profile(stack, given)
        finally:
            stack.down()


def _profile(stack: Stack, given: argparse.Namespace) -> None:
    deployment = plan(load_project(PROJECTS / "plays" / "features.py"))
    unit = deployment.units[0]
    placed = Placed(unit.storage_fingerprint, "keep", ("user_id",), {"seconds": "seconds"})
    with open_store(stack.settings.redis_url) as store:
        metadata = store.run(Initialise())
        store.run(Deploy(deployment, metadata.deployment_version, topics={"plays": TOPIC_ID}))
        n = given.events
        table = made(n, store.run(ReadTime()), users=100_000)
        table = table.set_column(
            table.schema.get_field_index("partition"), "partition", pa.array(np.zeros(n, np.int32))
        )
        table = table.append_column("offset", pa.array(np.arange(n)))
        table = table.append_column("keep", pa.array(np.zeros(n, np.int32)))
        assert pc.all(pc.is_valid(table["user_id"])).as_py()
        profile = cProfile.Profile(time.process_time)
        cpu, wall = time.process_time(), time.perf_counter()
        if given.lines:
            profile.enable()
        entities = 0
        for begin in range(0, n, given.batch):
            some = table.slice(begin, given.batch).combine_chunks()
            batch = batch_of(unit, placed, SourceRows.of(some, TOPIC_ID, 0))
            assert batch is not None
            entities += store.run(ApplyBatch(batch)).entities
        profile.disable()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    figures = {
        "events": n,
        "batch": given.batch,
        "entity_writes": entities,
        "cpu_us_per_event": round(cpu / n * 1e6, 2),
        "wall_us_per_event": round(wall / n * 1e6, 2),
        "profiled": bool(given.lines),
    }
    print(json.dumps(figures))
    if given.lines:
        pstats.Stats(profile).sort_stats("tottime").print_stats(given.lines)


if __name__ == "__main__":
    main()
