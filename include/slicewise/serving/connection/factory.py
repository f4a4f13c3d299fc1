"""A store's nodes decide which connection it needs: one of its own for a single node, one per node
for several."""

from __future__ import annotations

from collections.abc import Callable

from slicewise.serving.connection.connection import AsyncConnection, SyncConnection
from slicewise.serving.connection.nodes import AsyncNodes, SyncNodes
from slicewise.settings import urls_of
from slicewise.stores.online.redis.adapter import open_store


def blocking(url: str, timeout_s: float = 5.0) -> SyncConnection:
    """A connection for one thread to the store at this URL, or at these, divided by commas."""
    if len(urls_of(url)) > 1:
        return SyncConnection(lambda: SyncNodes(url, timeout_s))
    return SyncConnection(lambda: open_store(url, timeout_s))


def asynchronous(
    url: str, timeout_s: float, observe: Callable[[float], None], flow_timeout_s: float
) -> AsyncConnection:
    """A connection for one event loop to the same. observe: told the seconds of each request."""
    urls = urls_of(url)
    if len(urls) > 1:
        return AsyncNodes(urls, timeout_s, observe, flow_timeout_s)
    return AsyncConnection(url, timeout_s, observe, flow_timeout_s)
