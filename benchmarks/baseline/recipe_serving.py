"""The usual recipe's serving: FastAPI and redis.asyncio, adding up the buckets of each window.

Reads what `recipe_stream` writes: one hash per entity and bucket, `plays:<user>:<bucket>`, all
buckets of the longest window in one pipeline, and sums them in Python per window. `/ready` answers
values that a job has computed before and stored as they are: what such a recipe costs where nothing
is left to do.

Run in the platform's environment: python -m benchmarks.baseline.recipe_serving --redis-url URL
--port N
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import redis.asyncio
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Query(BaseModel):
    """One entity."""

    user_id: str


def create(url: str, bucket_s: int, windows: dict[str, int]) -> FastAPI:
    """windows: name -> length in buckets."""
    app = FastAPI()
    client = redis.asyncio.Redis.from_url(url, decode_responses=True)
    longest = max(windows.values())

    @app.post("/features")
    async def features(query: Query) -> dict[str, Any]:
        now = int(time.time()) // bucket_s
        pipeline = client.pipeline(transaction=False)
        for bucket in range(now - longest + 1, now + 1):
            pipeline.hget(f"plays:{query.user_id}:{bucket}", "seconds")
        seconds = [float(value) if value else 0.0 for value in await pipeline.execute()]
        return {name: sum(seconds[longest - length :]) for name, length in windows.items()}

    @app.post("/ready")
    async def ready(query: Query) -> dict[str, Any]:
        fields = await client.hgetall(f"ready:{query.user_id}")
        return {str(name): float(value) for name, value in fields.items()}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--bucket-seconds", type=int, default=300)
    parser.add_argument("--windows", default="30m=6,1h=12,2h=24", help="name=buckets, …")
    arguments = parser.parse_args()
    windows = {n: int(b) for n, _, b in (w.partition("=") for w in arguments.windows.split(","))}
    app = create(arguments.redis_url, arguments.bucket_seconds, windows)
    uvicorn.run(
        app, host="127.0.0.1", port=arguments.port, loop="uvloop", http="httptools",
        access_log=False, log_level="warning",
    )  # fmt: skip


if __name__ == "__main__":
    main()
