"""A port once given to a server is offered to it again, as long as nobody else took it."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

from slicewise.errors import ServerError

HOST = "127.0.0.1"
# Below the range that kernels hand to outgoing connections: a port given here is not taken by
# one while its server is down.
RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Could a server listen on this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as servers do: a connection that is still closing does not hold a port
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(remembered: int | None = None, taken: Collection[int] = ()) -> int:
    """The remembered port if it is free, else another free one; none of `taken`."""
    if remembered is not None and remembered not in taken and is_free(remembered):
        return remembered
    # where a port lands decides nothing that is computed, so the system's randomness may pick
    for port in random.SystemRandom().sample(RANGE, 500):
        if port not in taken and is_free(port):
            return port
    raise ServerError(
        "no free port",
        where=f"{HOST}, ports {RANGE.start} to {RANGE.stop}",
        next_step="stop what listens there (ss -ltnp shows it) and start again",
    )
