"""The usual recipe's API: FastAPI and redis.asyncio, which sums an entity's buckets per window.

One pipelined round trip fetches every bucket of the longest window, hiredis parses, and the answer
is handed over as a JSONResponse, which spares FastAPI's own encoder. Windows are those of the
recipe's tutorials and of the view that it is compared with: from the start of the bucket that
contains t - W up to now.

  RECIPE_REDIS_URL=URL uvicorn --host 127.0.0.1 --port PORT --loop uvloop --http httptools --no-access-log \
    benchmarks.baseline.recipe_api:app
"""

from __future__ import annotations

import os
import time

import redis.asyncio as redis
from fastapi import FastAPI
from fastapi.responses import JSONResponse

BUCKET_SECONDS = 300
WINDOWS = {"30m": 1800, "1h": 3600, "2h": 7200}
LONGEST = max(WINDOWS.values())

app = FastAPI()
_client = redis.Redis.from_url(os.environ.get("RECIPE_REDIS_URL", "redis://127.0.0.1:6379/0"))


@app.get("/healthz")
async def healthz() -> JSONResponse:
    """Up."""
    return JSONResponse({"status": "ok"})


@app.get("/features/{user_id}")
async def features(user_id: str) -> JSONResponse:
    """Plays and seconds of a user over every window."""
    now = time.time()
    first, last = int(now - LONGEST) // BUCKET_SECONDS, int(now) // BUCKET_SECONDS
    pipeline = _client.pipeline(transaction=False)
    for bucket in range(first, last + 1):
        pipeline.hmget(f"plays:{user_id}:{bucket}", "plays", "seconds")
    sums_stored = await pipeline.execute()
    values: dict[str, float] = {}
    for name, length in WINDOWS.items():
        begin = int(now - length) // BUCKET_SECONDS - first
        plays, seconds = 0, 0.0
        for value in sums_stored[begin:]:
            if value[0] is not None:
                plays += int(value[0])
                seconds += float(value[1])
        values[f"plays_{name}"] = plays
        values[f"seconds_{name}"] = seconds
    return JSONResponse(values)
