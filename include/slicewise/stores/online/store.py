"""A connection runs operations to their end, on one node or on all nodes of a store."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar

from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operations.connecting import Bind
from slicewise.stores.online.port import NodeContext, NodesContext, Operation, Rebinding
from slicewise.stores.online.sharded.routing import Nodes, node_name
from slicewise.stores.online.steps import drive

R = TypeVar("R")


class Connected(Protocol):
    """A connection to a store node, or to all of its nodes. It answers commands in order, and never
    reconnects."""

    @property
    def server_run(self) -> ServerRun: ...
    def run(self, commands: Sequence[Any]) -> list[Any]: ...
    def close(self) -> None: ...


class Store:
    """The online store over one connection: `port.OnlineStore`."""

    def __init__(self, node: Connected, name: str = "") -> None:
        """name: of a node that is one of several, as in `StoreMetadata`."""
        self.node = node
        self.context: NodeContext | NodesContext = (
            context_of(node) if isinstance(node, Nodes) else NodeContext(node.server_run, name)
        )
        self.run(Bind())

    def run(self, operation: Operation[R]) -> R:
        """The result of an operation."""
        return drive(self.steps(operation), self.node.run)

    def steps(self, operation: Operation[R]) -> Generator[Sequence[Any], list[Any], R]:
        """An operation as steps, by what this connection is bound to when they begin."""
        context = self.context
        if isinstance(context, NodesContext):
            result = yield from operation.over(context)
        else:
            result = yield from operation.steps(context)
        if isinstance(operation, Rebinding):
            context = self.context  # another operation may have bound it to more meanwhile
            if isinstance(context, NodesContext):
                self.context = operation.after_over(context, result)
            else:
                self.context = operation.after(context, result)
        return result

    @property
    def server_run(self) -> ServerRun:
        return self.context.server_run

    @property
    def store_id(self) -> int:
        """The store id. NotReady before `Initialise`."""
        return self.context.store_id

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.node.close()


def context_of(nodes: Nodes) -> NodesContext:
    """The context that a connection to these nodes is bound to when it opens."""
    count = len(nodes.nodes)
    contexts = tuple(
        NodeContext(node.server_run, node_name(n, count)) for n, node in enumerate(nodes.nodes)
    )
    return NodesContext(nodes.server_run, contexts)
