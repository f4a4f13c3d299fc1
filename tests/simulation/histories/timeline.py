"""A story is a line per deed: in which move and when, who, what, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from slicewise.stores.online.steps import (
    MISSED,
    Change,
    ListChange,
    PendingChange,
    PendingListChange,
    PutText,
)

WHAT_WIDTH = 110


class Line(NamedTuple):
    """One deed. at_us: since the history began, by the store's clock."""

    move: int
    at_us: int
    who: str
    what: str | Any
    """In words, or a command of the store."""
    effect: Any = ""

    def cells(self) -> tuple[str, str, str, str, str]:
        if isinstance(self.what, str):
            return str(self.move), clock_text(self.at_us), self.who, self.what, str(self.effect)
        return (
            str(self.move),
            clock_text(self.at_us),
            self.who,
            command_text(self.what),
            reply_text(self.effect),
        )


def rendered(lines: Iterable[Line]) -> str:
    """Columns: move, time, who, what, effect."""
    rows = [("move", "time", "who", "what", "effect"), *(line.cells() for line in lines)]
    widths = [min(WHAT_WIDTH, max(len(row[i]) for row in rows)) for i in range(4)]
    return "\n".join(
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]
        ).rstrip()
        for row in rows
    )


def clock_text(at_us: int) -> str:
    seconds, micros = divmod(at_us, 1_000_000)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def command_text(command: Any) -> str:
    """A command that writes: per key the fields that it sets, deletes and has checked."""
    if isinstance(command, Change):
        return "; ".join(
            key_text(key.key)
            + _fields("set", [name for name, _, _ in key.sets])
            + _fields("del", key.deletes)
            + _fields("passed", [b"%s:%d" % key.passed[:2]] if key.passed else [])
            for key in command.keys
            if key.sets or key.deletes or key.passed
        )
    if isinstance(command, PendingChange):
        offsets = [offset for offset, *_ in command.events]
        return key_text(command.key) + _fields(
            "tail", [b"%s:%d" % (command.topic_partition, offset) for offset in offsets]
        )
    if isinstance(command, ListChange):
        return (
            key_text(command.key)
            + f" add {len(command.adds)}"
            + _fields("set", [name for name, _ in command.sets])
        )
    if isinstance(command, PendingListChange):
        return (
            key_text(command.key) + f" real-time lane {[offset for offset, _, _ in command.events]}"
        )
    return (
        key_text(command.key) + " put" if isinstance(command, PutText) else type(command).__name__
    )


def reply_text(reply: Any) -> str:
    return "missed" if reply == MISSED else "" if reply in (0, None) else str(reply)


def key_text(key: bytes) -> str:
    """A key without store id and column types: `42 00a0 hot`, `covers plays`, `marks`."""
    before, _, rest = key.decode().partition("{")
    kind = [part for part in before.split(":")[1:] if part and not part.isdigit()]
    if kind:
        return " ".join(part[-4:] if len(part) >= 16 else part for part in kind)
    entity, _, name = rest.partition("}")
    unit, _, what = name.strip(":").partition(":")
    return f"{entity.rpartition(':')[2]} {unit[:16][-4:]}{unit[16:]} {what}".strip()


def _fields(verb: str, names: Sequence[bytes]) -> str:
    return f" {verb} {' '.join(map(field_text, names))}" if names else ""


def field_text(name: bytes) -> str:
    """A field's name; a topic id shortened."""
    try:
        parts = name.decode().split(":")
    except UnicodeDecodeError:
        return name.hex()
    return ":".join(f"{part[:3]}~" if len(part) >= 16 else part for part in parts)
