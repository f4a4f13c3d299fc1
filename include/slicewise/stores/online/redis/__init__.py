"""The online store on Redis 7.0 or Valkey.

Importing this package imports no driver and no NumPy: Airflow reads `status` from it.

Doors: open_store, read_status, sweep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slicewise.stores.online.redis.adapter import AsyncReader, open_store

__all__ = ["AsyncReader", "open_store"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from slicewise.stores.online.redis import adapter

        return getattr(adapter, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
