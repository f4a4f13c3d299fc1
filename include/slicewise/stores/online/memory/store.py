"""A store in memory keeps every promise of a real node, and fails as one does, on command.

For unit tests and the simulator. A server has server runs; its connections die with theirs. It
can lose its last writes (a prefix is left, as after a crash with an append-only file) and it can
be emptied, which keeps the server run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.clock import Clock
from slicewise.codec import IDENTITY_BYTES, pack_skip
from slicewise.errors import CodecError, StoreUnavailable
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.keys import LOW, PENDING_COUNT
from slicewise.stores.online.memory import pending as memory_pending
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.routing import Nodes
from slicewise.stores.online.steps import (
    EXPIRED,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    ListChange,
    Members,
    PendingChange,
    PendingListChange,
    PutLeaderboard,
    PutText,
    Tagged,
    Text,
    Time,
    Together,
    passes,
)
from slicewise.stores.online.store import Store

HISTORY = 64
"""Writes that a crash may take back."""


@dataclass
class Hash:
    """One key: its fields, and the second at which it expires (0: never)."""

    fields: dict[bytes, bytes] = field(default_factory=dict)
    expiry: int = 0
    expiry_us: int = 0
    """Expiry of a leaderboard, which may live for less than a second."""


@dataclass
class Sorted:
    """A sorted set: (score, member), ascending, and its expiry."""

    members: list[tuple[int, bytes]] = field(default_factory=list)
    expiry: int = 0


Undo = Callable[[], None]


class MemoryServer:
    """A node: keys, a clock of its own, and one server run after another."""

    def __init__(
        self, clock: Clock, version: str = "7.0.0", policy: str = "noeviction", name: str = "memory"
    ) -> None:
        decisions.check_server(version, policy, "master")
        self.clock = clock
        self.hashes: dict[bytes, Hash] = {}
        self.lists: dict[bytes, Sorted] = {}
        self.texts: dict[bytes, bytes] = {}
        self.runs = 0
        self.name = name
        self._undo: list[Undo] = []

    @property
    def server_run(self) -> ServerRun:
        return ServerRun(f"{self.name}-{self.runs}", f"{self.name}-{self.runs}")

    def connect(self) -> MemoryNode:
        return MemoryNode(self)

    def restart(self, lost_writes: int = 0) -> int:
        """Another server run, without the last writes; how many were lost."""
        lost = min(lost_writes, len(self._undo))
        for _ in range(lost):
            self._undo.pop()()
        self._undo.clear()
        self.runs += 1
        return lost

    def flush(self) -> None:
        """Empties the store within the same server run: connections stay up."""
        self.hashes.clear()
        self.lists.clear()
        self.texts.clear()
        self._undo.clear()

    # ------------------------------------------------------------ commands
    def execute(self, command: Command) -> Any:
        """One command, atomically."""
        if isinstance(command, Time):
            return self.clock.now_us()
        if isinstance(command, Fields):
            stored = self._hash(command.key)
            return [None if stored is None else stored.fields.get(name) for name in command.fields]
        if isinstance(command, Change):
            return self._change(command)
        if isinstance(command, ListChange):
            return self._list_change(command)
        if isinstance(command, PendingChange):
            return self._pending_change(command)
        if isinstance(command, PendingListChange):
            return self._pending_list_change(command)
        if isinstance(command, Members):
            return self._members(command)
        if isinstance(command, Text):
            return self.texts.get(command.key)
        if isinstance(command, PutText):
            before = self.texts.get(command.key)
            self._remember(lambda: self._put_back(command.key, before))
            self.texts[command.key] = command.value
            return None
        if isinstance(command, PutLeaderboard):
            return self._put_leaderboard(command)
        if isinstance(command, Together):
            return [self.execute(inner) for inner in command.commands]
        if isinstance(command, Tagged):
            return [self.execute(inner) for inner in command.commands()]
        stored = self._hash(command.key)
        return [part for pair in stored.fields.items() for part in pair] if stored else []

    def _hash(self, key: bytes) -> Hash | None:
        stored = self.hashes.get(key)
        until_us = 0 if stored is None else stored.expiry_us or stored.expiry * 1_000_000
        if until_us and until_us <= self.clock.now_us():
            del self.hashes[key]
            return None
        return stored

    def _change(self, change: Change) -> int:
        """Does what scripts/compare_and_set.lua does."""
        for key in change.keys:
            stored = self._hash(key.key)
            fields = {} if stored is None else stored.fields
            if not all(passes(want, fields.get(name)) for name, want in key.checks):
                return MISSED
        before = [(key.key, self._copy(key.key)) for key in change.keys]
        try:
            written = sum(self._write(key) for key in change.keys)
        except CodecError:  # a script meets what is torn before its first write
            self._restore(before)
            raise
        self._remember(lambda: self._restore(before))
        return written

    def _write(self, change: KeyChange) -> int:
        now = self.clock.now_us() // 1_000_000
        sets = [entry for entry in change.sets if entry[2] == 0 or entry[2] > now]
        stored = self._hash(change.key)
        if sets:
            existed = stored is not None
            stored = self.hashes.setdefault(change.key, Hash())
            for name, value, expiry in sets:
                stored.fields[name] = value
                if expiry and (not existed or expiry > stored.expiry):
                    stored.expiry = max(stored.expiry, expiry)
        if stored is not None:
            for name in change.deletes:
                stored.fields.pop(name, None)
            if change.passed is not None and (sets or not change.sets):
                memory_pending.take(stored.fields, change.passed)
            if not stored.fields:
                del self.hashes[change.key]
        return len(change.sets) - len(sets)

    def _put_leaderboard(self, command: PutLeaderboard) -> int:
        """Does what scripts/leaderboard.lua does."""
        stored, now = self._hash(command.key), self.clock.now_us()
        if stored is not None and stored.fields.get(b"o", b"") >= command.order:
            return 0
        before = [(command.key, stored)]
        self._remember(lambda: self._restore(before))
        fields = {b"o": command.order, b"b": command.value, b"t": b"%d" % now}
        self.hashes[command.key] = Hash(fields, expiry_us=now + command.expiry_ms * 1_000)
        return 1

    def _sorted(self, key: bytes) -> Sorted | None:
        stored = self.lists.get(key)
        if (
            stored is not None
            and stored.expiry
            and stored.expiry * 1_000_000 <= self.clock.now_us()
        ):
            del self.lists[key]
            return None
        return stored

    def _members(self, wanted: Members) -> list[bytes]:
        stored = self._sorted(wanted.key)
        inside = (
            []
            if stored is None
            else [m for score, m in stored.members if wanted.first <= score <= wanted.last]
        )
        return inside[: -wanted.newest - 1 : -1] if wanted.newest else inside

    def _list_change(self, change: ListChange) -> int:
        """Does what scripts/event_list.lua does."""
        hashed, now = self._hash(change.key), self.clock.now_us()
        fields = {} if hashed is None else hashed.fields
        if not all(passes(want, fields.get(name)) for name, want in change.checks):
            return MISSED
        if change.expiry and change.expiry <= now // 1_000_000 and hashed is None:
            return EXPIRED
        before, listed_before = (
            [(change.key, self._copy(change.key))],
            self._copy_list(change.list_key),
        )
        self._remember(lambda: self._restore(before))
        self._remember_with(lambda: self._restore_list(change.list_key, listed_before))
        return self._put_members(change, fields, dict(change.sets), change.adds)

    def _put_members(
        self,
        change: ListChange | PendingListChange,
        fields: Mapping[bytes, bytes],
        sets: dict[bytes, bytes],
        adds: Sequence[tuple[int, bytes]],
    ) -> int:
        """Adds, trims, sets applied offset, mark and expiries; how many were cut."""
        hashed, now = self._hash(change.key), self.clock.now_us()
        until = (
            0 if not change.expiry else max(change.expiry, 0 if hashed is None else hashed.expiry)
        )
        stored = self._sorted(change.list_key)
        ordered = sorted(set(adds).union(() if stored is None else stored.members))
        keeps = change.keeps
        older = sum(score < now - keeps.range_us for score, _ in ordered)
        past = sum(score <= now - keeps.late_us for score, _ in ordered)
        drop, cut = decisions.surplus(keeps, len(ordered), older, past)
        if drop:
            sets[LOW] = ordered[drop - 1][1][:IDENTITY_BYTES]
        if hashed is not None or sets:
            self.hashes[change.key] = Hash({**fields, **sets}, until)
        self.lists.pop(change.list_key, None)
        if ordered[drop:]:
            self.lists[change.list_key] = Sorted(ordered[drop:], until)
        return cut

    # ------------------------------------------------------------ the pending events
    def _pending_change(self, change: PendingChange) -> list[int]:
        """Does what scripts/pending.lua does."""
        stored, now = self._hash(change.key), self.clock.now_us() // 1_000_000
        fields = {} if stored is None else stored.fields
        applied_offset = int(fields.get(change.applied_field, b"-1"))
        new = [event for event in change.events if event[0] > applied_offset]
        kept = [event for event in new if event[2] == 0 or event[2] > now]
        already_applied, expired = len(change.events) - len(new), len(new) - len(kept)
        if not kept:
            return [0, already_applied, expired, 0]
        before = [(change.key, self._copy(change.key))]
        self._remember(lambda: self._restore(before))
        existed = stored is not None
        stored = self.hashes.setdefault(change.key, Hash())
        last, skip = (
            memory_pending.last_of(stored.fields, change.topic_partition),
            stored.fields.get(change.skip),
        )
        # what came before stands, or was skipped
        again = sum(
            decisions.is_skipped(skip, applied_offset, offset)
            for offset, *_ in kept
            if offset <= last
        )
        beyond = [event for event in kept if event[0] > last]
        room = max(0, change.bound - int(stored.fields.get(PENDING_COUNT, b"0")))
        if beyond[:room]:
            some = [member for _, member, _ in beyond[:room]]
            memory_pending.append(stored.fields, change.topic_partition, some, change.room)
        skipped = [offset for offset, *_ in beyond[room:]]
        if skipped:
            stored.fields[change.skip] = pack_skip(
                *decisions.skipped(skip, applied_offset, skipped[0], skipped[-1])
            )
        latest = max(expiry for *_, expiry in kept)
        if latest and (not existed or latest > stored.expiry):
            stored.expiry = latest
        left_out = again + len(skipped)
        return [len(kept) - left_out, already_applied, expired, left_out]

    def _pending_list_change(self, change: PendingListChange) -> list[int]:
        """Does what scripts/pending_list.lua does."""
        hashed, now = self._hash(change.key), self.clock.now_us()
        fields = {} if hashed is None else hashed.fields
        applied_offset = int(fields.get(change.applied_field, b"-1"))
        new = [event for event in change.events if event[0] > applied_offset]
        already_applied = len(change.events) - len(new)
        if not new:
            return [0, already_applied, 0, 0]
        above = set(decisions.above_low_water([member for *_, member in new], fields.get(LOW)))
        adds = [(score, member) for _, score, member in new if member in above]
        if change.expiry and change.expiry <= now // 1_000_000 and hashed is None:
            return [0, already_applied, len(new), 0]
        before, listed_before = (
            [(change.key, self._copy(change.key))],
            self._copy_list(change.list_key),
        )
        self._remember(lambda: self._restore(before))
        self._remember_with(lambda: self._restore_list(change.list_key, listed_before))
        cut = self._put_members(change, fields, {change.applied_field: b"%d" % new[-1][0]}, adds)
        return [len(adds), already_applied, len(new) - len(adds), cut]

    # ------------------------------------------------------------ losing writes
    def _copy_list(self, key: bytes) -> Sorted | None:
        stored = self.lists.get(key)
        return None if stored is None else Sorted(list(stored.members), stored.expiry)

    def _restore_list(self, key: bytes, before: Sorted | None) -> None:
        if before is None:
            self.lists.pop(key, None)
        else:
            self.lists[key] = before

    def _copy(self, key: bytes) -> Hash | None:
        stored = self.hashes.get(key)
        return None if stored is None else Hash(dict(stored.fields), stored.expiry)

    def _restore(self, before: list[tuple[bytes, Hash | None]]) -> None:
        for key, value in before:
            if value is None:
                self.hashes.pop(key, None)
            else:
                self.hashes[key] = value

    def _put_back(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.texts.pop(key, None)
        else:
            self.texts[key] = value

    def _remember_with(self, undo: Undo) -> None:
        """Taken back together with the write before it."""
        last = self._undo.pop()

        def both() -> None:
            undo()
            last()

        self._undo.append(both)

    def _remember(self, undo: Undo) -> None:
        self._undo.append(undo)
        del self._undo[:-HISTORY]


class MemoryNode:
    """One connection: dead when its server's server run is over."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.server_run = server.server_run
        self._open = True

    def run(self, commands: Sequence[Command]) -> list[Any]:
        return [self.run_one(command) for command in commands]

    def run_one(self, command: Command) -> Any:
        if not self._open or self.server.server_run != self.server_run:
            self._open = False
            raise StoreUnavailable(
                "the store closed the connection", next_step="open a new connection"
            )
        return self.server.execute(command)

    def start(self, commands: Sequence[Command]) -> Callable[[], list[Any]]:
        replies = self.run(commands)
        return lambda: replies

    def close(self) -> None:
        self._open = False


def open_memory(*servers: MemoryServer) -> Store:
    """A store over a new connection to a server in memory, or to several that are its nodes."""
    if len(servers) == 1:
        return Store(servers[0].connect())
    return Store(Nodes([server.connect() for server in servers]))
