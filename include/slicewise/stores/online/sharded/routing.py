"""An entity's keys are all on one node; its tag alone names it, while the number of nodes stays.

Slots are Redis Cluster's, of tags, dealt to the nodes in equal ranges. A question to several nodes
is sent to all of them before anybody's reply is waited for (docs/adr/0068).
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from slicewise.errors import SettingsError, SlicewiseError, StoreUnavailable
from slicewise.settings import MOST_NODES
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.steps import Command, Steps

T = TypeVar("T")
E = TypeVar("E", bound="Entry")
SLOTS = 16_384


def slot(tag: bytes) -> int:
    """The slot of keys that have this tag in braces, as Redis Cluster computes it: CRC16 (XMODEM)
    modulo 16,384."""
    return crc_hqx(tag, 0) % SLOTS


def node_of(tag: bytes, count: int) -> int:
    """The one of so many nodes that has the keys of a tag."""
    return slot(tag) * count // SLOTS


def node_name(number: int, count: int) -> str:
    """The name of a node as in `StoreMetadata.node`: "2/3" of number 1; "" of the only node of a
    store."""
    return f"{number + 1}/{count}" if count > 1 else ""


class On(NamedTuple):
    """A command of one node."""

    node: int
    command: Command


class Node(Protocol):
    """A connection to a store node. It answers commands in order, and never reconnects."""

    @property
    def server_run(self) -> ServerRun: ...
    def run(self, commands: Sequence[Command]) -> list[Any]: ...
    def start(self, commands: Sequence[Command]) -> Callable[[], list[Any]]:
        """Sends; what is returned waits for the replies, and is to be called before anything else
        is asked."""
        ...

    def close(self) -> None: ...


class Nodes:
    """A connection to every node of a store. What fails on one fails; what needs a broken one fails
    from then on."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        if not 1 < len(nodes) <= MOST_NODES:
            raise SettingsError(
                f"a store of {len(nodes)} nodes",
                expected=f"2 to {MOST_NODES}",
                next_step="correct SLICEWISE_REDIS_URL",
            )
        self.nodes = tuple(nodes)
        server_runs = [node.server_run for node in nodes]
        if len(set(server_runs)) < len(server_runs):
            raise SettingsError(
                "the same node is named twice",
                where="SLICEWISE_REDIS_URL",
                next_step="leave it out once",
            )

    @property
    def server_run(self) -> ServerRun:
        return sharded_server_run([node.server_run for node in self.nodes])

    def run(self, commands: Sequence[On]) -> list[Any]:
        """Replies in the order of the commands. Raises what the first that fails raises."""
        by_node: dict[int, list[Command]] = {}
        for command in commands:
            by_node.setdefault(command.node, []).append(command.command)
        waiting: dict[int, Callable[[], list[Any]]] = {}
        replies: dict[int, Iterator[Any]] = {}
        failed: list[SlicewiseError] = []
        try:
            for number, own in by_node.items():
                try:
                    waiting[number] = self.nodes[number].start(own)
                except SlicewiseError as error:
                    failed.append(error)
            for number, wait in waiting.items():
                try:
                    replies[number] = iter(wait())
                except SlicewiseError as error:
                    # but the others' replies are waited for: else they answer what is asked next
                    failed.append(error)
        except BaseException:
            self.close()
            raise
        if failed:
            raise failed[0]
        return [next(replies[command.node]) for command in commands]

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def sharded_server_run(server_runs: Sequence[ServerRun]) -> ServerRun:
    """One name for the server runs of several nodes: another as soon as one of them begins another
    server run."""
    return ServerRun(
        "+".join(server_run.run_id for server_run in server_runs),
        "+".join(server_run.replication_id for server_run in server_runs),
    )


# ------------------------------------------------------------------ operations of several nodes
ShardedSteps = Generator[Sequence[Any], list[Any], T]
"""Steps as `Steps`, of commands that say whose they are (`On`)."""


def on_node(node: int, steps: Steps[T]) -> ShardedSteps[T]:
    """An operation of one node."""
    return _value((yield from together({node: steps})), node)


def _value(by_number: Mapping[int, T], node: int) -> T:
    return by_number[node]


def together(many: Mapping[int, Steps[T]]) -> ShardedSteps[dict[int, T]]:
    """Operations of several nodes side by side: what they ask next is asked at once. The first that
    fails ends all."""
    done: dict[int, T] = {}
    running: dict[int, Sequence[Command]] = {}
    replies: dict[int, list[Any] | None] = dict.fromkeys(many)
    while True:
        for node in list(replies):
            steps, reply = many[node], replies.pop(node)
            try:
                running[node] = next(steps) if reply is None else steps.send(reply)
            except StopIteration as ended:
                done[node] = ended.value
        if not running:
            return {node: done[node] for node in many}
        answers = iter(
            (
                yield [
                    On(node, command) for node, commands in running.items() for command in commands
                ]
            )
        )
        replies = {node: [next(answers) for _ in commands] for node, commands in running.items()}
        running = {}


def by_node(tags: Sequence[bytes], count: int) -> dict[int, list[int]]:
    """Node -> positions of its tags, ascending."""
    positions: dict[int, list[int]] = {}
    for position, tag in enumerate(tags):
        positions.setdefault(node_of(tag, count), []).append(position)
    return positions


class Entry(Protocol):
    """Values of one entity."""

    @property
    def tag(self) -> bytes: ...


def entries_by_node(
    entries: Sequence[E], count: int
) -> tuple[dict[int, list[int]], dict[int, list[E]]]:
    """Node -> positions of its entries, ascending, where it has any; node -> its entries, of every
    node."""
    positions = by_node([entry.tag for entry in entries], count)
    own = {n: [entries[i] for i in positions.get(n, ())] for n in range(count)}
    return positions, own


def check_one_set(metadata: Mapping[int, StoreMetadata]) -> None:
    """Checks that nodes with this metadata belong together. SettingsError."""
    sets = {number: node.set_id for number, node in metadata.items()}
    if len(set(sets.values())) > 1:
        named = ", ".join(f"node {number + 1} of set {set_id}" for number, set_id in sets.items())
        raise SettingsError(
            f"the nodes belong to different stores: {named}",
            where="SLICEWISE_REDIS_URL",
            expected="nodes that were first deployed to together",
            next_step="set the addresses right",
        )


def away(number: int, count: int, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"node {number + 1} of {count} of the online store does not answer: {why}",
        next_step="is it up? entities of the other nodes are answered",
    )
