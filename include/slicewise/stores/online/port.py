"""Port of the online store for the rest of slicewise; adapters keep one contract suite.

An operation is a value in the file of its rule, under `operations`:
`store.run(PublishHour(unit, hour, …))`.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operation import Operation

R = TypeVar("R")


class OnlineStore(Protocol):
    """One connection to a store, of one node or of several.

    It is bound to the server run that it found when it was opened, and to the store id of its
    metadata; it never reconnects: after StoreUnavailable or ServerRunChanged open another, and
    start again from the metadata.
    """

    @property
    def server_run(self) -> ServerRun: ...
    @property
    def store_id(self) -> int:
        """The store id that this connection's keys name. NotReady before `Initialise`."""
        ...

    def run(self, operation: Operation[R]) -> R:
        """The result of an operation."""
        ...

    def close(self) -> None: ...
