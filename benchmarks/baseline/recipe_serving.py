"""The usual recipe's serving where nothing is left to do: FastAPI and redis.asyncio, answering
values that a job has computed before and stored as they are.

Run in the platform's environment: python -m benchmarks.baseline.recipe_serving --redis-url URL
--port N
"""

from __future__ import annotations

import argparse

import redis.asyncio
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Query(BaseModel):
    """One entity."""

    user_id: str


def create(url: str) -> FastAPI:
    app = FastAPI()
    client = redis.asyncio.Redis.from_url(url, decode_responses=True)

    @app.post("/ready")
    async def ready(query: Query) -> dict[str, float]:
        fields = await client.hgetall(f"ready:{query.user_id}")
        return {str(name): float(value) for name, value in fields.items()}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    app = create(arguments.redis_url)
    uvicorn.run(
        app, host="127.0.0.1", port=arguments.port, loop="uvloop", http="httptools",
        access_log=False, log_level="warning",
    )  # fmt: skip


if __name__ == "__main__":
    main()
