"""A port once given to a server is offered to it again; to servers of another state folder it is
not given meanwhile.

Airflow binds its port half a minute after it was chosen, and a server that is down binds none: that
nobody listens tells nothing of either. So the choice leaves a claim, a symbolic link named by the
port that leads to the state folder, in a folder which all state folders of a user share. A claim
ends with its state folder.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def choose(
    remembered: int | None = None, taken: Collection[int] = (), owner: Path | None = None
) -> int:
    """The remembered port if it is free, else another free one; none of `taken`, none that another
    folder claims.

    owner: the state folder that claims it; without one, nobody is kept from choosing it a moment
    later.
    """
    with _claims() as claims:
        if (
            remembered is not None
            and remembered not in taken
            and claims.give(remembered, owner, again=True)
        ):
            return remembered
        # where a port lands decides nothing that is computed, so the system's randomness may pick
        for port in random.SystemRandom().sample(RANGE, 500):
            if port not in taken and claims.give(port, owner):
                return port
    raise ServerError(
        "no free port",
        where=f"{HOST}, ports {RANGE.start} to {RANGE.stop}",
        next_step="stop what listens there (ss -ltnp shows it) and start again",
    )


class _Claims:
    """Claims that stand in their folder; its lock is held."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        names = (name for name in os.listdir(folder) if name.isdecimal())
        self._owners = {name: os.readlink(name, dir_fd=folder) for name in names}
        for name in [name for name, owner in self._owners.items() if not os.path.lexists(owner)]:
            os.unlink(name, dir_fd=folder)
            del self._owners[name]

    def give(self, port: int, owner: Path | None, again: bool = False) -> bool:
        """Claims the port for the owner, if it is nobody's (again: or its own) and nobody listens
        on it; did it."""
        name, wanted = str(port), "" if owner is None else str(owner.resolve())
        claimed_by = self._owners.get(name)
        if claimed_by is not None and not (again and claimed_by == wanted):
            return False
        if not is_free(port):
            return False
        if wanted and claimed_by is None:
            os.symlink(wanted, name, dir_fd=self._folder)
        return True


@contextmanager
def _claims() -> Iterator[_Claims]:
    """The claims of this user, while no other process reads or changes them."""
    path = Path(tempfile.gettempdir()) / f"slicewise-ports-{os.getuid()}"
    folder = _opened(path)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield _Claims(folder)
    finally:
        os.close(folder)


def _opened(path: Path) -> int:
    why = "it is somebody else's"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(folder).st_uid == os.getuid():
            return folder
        os.close(folder)
    except OSError as error:
        why = str(error)
    raise ServerError(
        f"the folder of claimed ports cannot be used: {why}",
        where=str(path),
        expected="a folder of this user's",
        next_step="name another folder for temporary files with TMPDIR",
    )
