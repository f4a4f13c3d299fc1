"""An operation is a frozen value that runs on one node, and over several by its combinator;
contexts never change."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import DeploymentSuperseded, NotReady, StoreUnavailable
from slicewise.stores.online import operations
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.archive_versions import (
    PutArchiveVersion,
    ReadArchiveVersions,
)
from slicewise.stores.online.operations.connecting import HoldBuilds, Initialise, ReadMetadata
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.port import (
    ByTag,
    Everywhere,
    InTurn,
    NodeContext,
    NodesContext,
    Operation,
    Owner,
    Rebinding,
    Split,
)
from slicewise.stores.online.sharded.routing import by_node, node_of
from slicewise.stores.online.steps import ATTEMPTS, Command, Steps, Text, drive
from slicewise.stores.online.store import Store
from tests.support.stores.several import NAME, UNIT, deployed, one_node, servers
from tests.support.stores.stored import offset_vector
from tests.support.stores.units import StoreUnit

COUNT = 3
NODES = NodesContext(
    ServerRun("all", "all"),
    tuple(NodeContext(ServerRun(f"{n}", f"{n}"), f"{n + 1}/{COUNT}") for n in range(COUNT)),
)


class Refused(Exception):
    """Refusal by a node of an operation that it does not take."""


@dataclass(frozen=True)
class Named(Operation[str]):
    """The node that it runs on, once it was asked something."""

    refused_by: str = ""

    def steps(self, at: NodeContext) -> Steps[str]:
        yield [Text(at.node.encode())]
        if at.node == self.refused_by:
            raise Refused
        return at.node


@dataclass(frozen=True)
class OnAll(Named, Everywhere[str]):
    def merge(self, replies: Mapping[int, str]) -> str:
        return " ".join(replies.values())


@dataclass(frozen=True)
class OneByOne(Named, InTurn[str]):
    def merge(self, replies: Mapping[int, str]) -> str:
        return " ".join(replies.values())


@dataclass(frozen=True)
class OfTags(Named, ByTag[str]):
    tags: Sequence[bytes] = ()

    def split(self, count: int) -> Split[str]:
        positions = by_node(self.tags, count)
        parts = {n: OfTags(tags=[self.tags[i] for i in own]) for n, own in positions.items()}
        return Split(parts, positions)

    def join(self, replies: Mapping[int, str], split: Split[str]) -> str:
        return " ".join(
            f"{reply}:{len(split.positions[n])}" for n, reply in sorted(replies.items())
        )


@dataclass(frozen=True)
class OfName(Named, Owner[str]):
    name: str = "top_songs"


def outcome_of(operation: Operation[str]) -> tuple[str | type[Exception], list[list[int]]]:
    """The result of an operation over the nodes, and which of them each exchange asks."""
    exchanges: list[list[int]] = []

    def run(commands: Sequence[Any]) -> list[Any]:
        exchanges.append([command.node for command in commands])
        return [None] * len(commands)

    try:
        return drive(operation.over(NODES), run), exchanges
    except Refused:
        return Refused, exchanges


def test_everywhere_asks_all_nodes_at_once_and_merges() -> None:
    assert outcome_of(OnAll()) == ("1/3 2/3 3/3", [[0, 1, 2]])


def test_in_turn_asks_one_node_after_another_and_none_after_one_that_refuses() -> None:
    assert outcome_of(OneByOne()) == ("1/3 2/3 3/3", [[0], [1], [2]])
    assert outcome_of(OneByOne("2/3")) == (Refused, [[0], [1]])


def test_by_tag_asks_the_nodes_that_have_an_entity_at_once() -> None:
    on = [
        next(tag for tag in (b"%d" % i for i in range(50)) if node_of(tag, COUNT) == n)
        for n in range(COUNT)
    ]
    assert outcome_of(OfTags(tags=[on[0], on[2], on[2]])) == ("1/3:1 3/3:2", [[0, 2]])


def test_an_owner_is_the_one_node_that_a_name_says() -> None:
    number = node_of(b"top_songs", COUNT)
    assert outcome_of(OfName()) == (f"{number + 1}/3", [[number]])


# ------------------------------------------------------------------ changes under a check
def missing(times: int, seen: list[int]) -> Any:
    def decide(left: int) -> Generator[Sequence[Command], list[Any], Missed[int] | str]:
        seen.append(left)
        yield []
        return Missed(left + 1) if left < times else "done"

    return decide


def test_a_change_is_decided_again_from_what_was_missed_until_nothing_is() -> None:
    seen: list[int] = []
    assert drive(change_while(missing(3, seen), 0, "here"), lambda _: []) == "done"
    assert seen == [0, 1, 2, 3]


def test_a_change_that_others_are_always_quicker_than_is_given_up() -> None:
    seen: list[int] = []
    with pytest.raises(StoreUnavailable, match="here"):
        drive(change_while(missing(10 * ATTEMPTS, seen), 0, "here"), lambda _: [])
    assert len(seen) == ATTEMPTS


# ------------------------------------------------------------------ contexts
def test_a_connection_is_bound_by_initialise_and_what_it_was_bound_to_stays_as_it_was() -> None:
    store = open_memory(MemoryServer(ManualClock(1)))
    before = store.context
    with pytest.raises(NotReady):
        _ = store.store_id
    record = store.run(Initialise())
    assert store.store_id == record.store_id
    assert isinstance(before, NodeContext)
    assert before.bound_to is None


def test_builds_that_two_operations_hold_at_once_are_held_both() -> None:
    other = StoreUnit(storage_fingerprint="f" * 16)
    store = deployed(servers(1), "two", UNIT, other)
    one, two = (store.steps(HoldBuilds({name: 0})) for name in (NAME, other.storage_fingerprint))
    commands = next(one), next(two)
    for steps, first in zip((one, two), commands, strict=True):
        with pytest.raises(StopIteration):
            steps.send(store.node.run(first))
    assert set(store.context.builds) == {NAME, other.storage_fingerprint}


def test_a_build_that_is_refused_leaves_the_context_as_it_was() -> None:
    for store in (deployed(servers(1)), deployed(servers())):
        before = store.context
        with pytest.raises(DeploymentSuperseded):
            store.run(HoldBuilds({NAME: 7}))
        assert store.context is before


# ------------------------------------------------------------------ readers and writers
def test_readers_get_what_any_node_knows_of_an_archive_version_and_writers_what_all_know() -> None:
    nodes = servers()
    store = deployed(nodes)
    store.run(PutArchiveVersion("plays", 1, offset_vector(1)))
    one_node(nodes, 1).run(PutArchiveVersion("plays", 2, offset_vector(2)))
    read = ReadArchiveVersions("plays")
    assert store.run(read) == {1: offset_vector(1)}
    route = read.route(len(nodes))
    assert not route.needs_all
    answers = {n: one_node(nodes, n).run(part) for n, part in route.parts.items()}
    assert route.join(answers) == {1: offset_vector(1), 2: offset_vector(2)}
    assert route.join({0: answers[0]}) == {1: offset_vector(1)}


def test_a_status_that_one_node_lost_is_read_of_the_others() -> None:
    nodes = servers()
    store = deployed(nodes)
    store.run(PutStatus("stream:plays", "runs"))
    nodes[0].flush()
    assert store.run(ReadStatus("stream:plays")) == "runs"


# ------------------------------------------------------------------ the form of operations
def every_operation() -> list[type[Operation[Any]]]:
    results = []
    for module in pkgutil.iter_modules(operations.__path__, f"{operations.__name__}."):
        members = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        results += [
            of for _, of in members if issubclass(of, Operation) and of.__module__ == module.name
        ]
    return results


def test_every_operation_is_a_frozen_dataclass_that_has_its_steps_and_is_whole_over_several_nodes() -> (
    None
):
    assert len(every_operation()) >= 36
    for of in every_operation():
        params: Any = inspect.getattr_static(of, "__dataclass_params__")
        assert params.frozen, of
        assert not inspect.isabstract(of), of


def test_a_connection_has_no_method_for_any_one_operation() -> None:
    public = {
        name
        for name, _ in inspect.getmembers(Store, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == {"run", "steps", "close"}


def test_what_binds_a_connection_says_so_for_one_node_and_for_several() -> None:
    binding = {of.__name__ for of in every_operation() if issubclass(of, Rebinding)}
    assert binding == {"Bind", "HoldBuilds", "Initialise"}
    for store in (deployed(servers(1)), deployed(servers())):
        builds = {NAME: store.run(ReadMetadata()).builds.get(NAME, 0)}
        store.run(HoldBuilds(builds))
        assert set(store.context.builds) == {NAME}
