"""A name with slots and a value with its bytes: what an entry of the table is made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Any

from slicewise.offsets.vector import OffsetVector

_NUMBERS = frozenset(
    {"store id", "partition", "slice", "number", "hour", "window end", "version", "instant"}
)  # slots that hold a decimal number; all others hold text
_PATTERNS = {
    "tag": r"[^{}]*",
    "yyyymmdd": r"\d{8}",
    "source": r".+",
    "view": r".+",
    "topic name": r".+",
    "part": r".+",
}
_SLOT = re.compile(r"<([a-z ]+)>")


class Where(Enum):
    """The hash that a field stands in."""

    HOT = "hot"
    DAY = "day"
    LIST = "list"
    IDS = "ids"
    PUBLISHED = "swapped"
    VECTORS = "covers"
    ENTERED = "entered"
    LEADERBOARD = "board"
    METADATA = "marks"


@dataclass(frozen=True, eq=False)
class Value:
    """Packer and parser of the bytes of a field."""

    pack: Callable[..., bytes]
    parse: Callable[[bytes], Any]
    layout: str = ""
    """The parts of a binary value, before its CRC-32."""


def _late(module: str, name: str) -> Callable[..., Any]:
    """A function of a codec, looked up when it is called: Airflow's environment has neither numpy
    nor msgpack."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"slicewise.codec.{module}"), name)(*arguments)

    return call


def binary(module: str, pack: str, parse: str, layout: str = "") -> Value:
    """A value of a codec's: the functions of that module by their names."""
    return Value(_late(module, pack), _late(module, parse), layout)


def pair(separator: str) -> Value:
    """Two decimal numbers with a separator between them."""

    def pack(first: int, second: int) -> bytes:
        return f"{first}{separator}{second}".encode()

    def parse(raw: bytes) -> tuple[int, int]:
        first, _, second = raw.partition(separator.encode())
        return int(first), int(second)

    return Value(pack, parse)


NUMBER = Value(lambda number: b"%d" % number, int)
TEXT = Value(str.encode, bytes.decode)
TEXTS = Value(lambda texts: ",".join(texts).encode(), lambda raw: tuple(raw.decode().split(",")))
TRUE = Value(lambda: b"1", lambda raw: raw == b"1")
VECTOR = Value(OffsetVector.pack, OffsetVector.unpack)
RAW = Value(bytes, bytes)


@dataclass(frozen=True, eq=False)
class Name:
    """A name with slots, as `r:<slice>:<topic>:<partition>`."""

    constant: str
    """Name of the function or the constant in the JVM."""
    text: str
    doc: str
    """One sentence, for docs/format.md."""
    form: bytes = field(init=False)
    """For `%`: a number for each slot that holds one, bytes for any other."""
    prefix: bytes = field(init=False)
    """The bytes before the first slot; the whole name where it has none."""
    pattern: re.Pattern[bytes] = field(init=False)
    """Matches names of this form alone; a group per slot."""

    def __post_init__(self) -> None:
        literals = _SLOT.split(self.text)[::2]
        forms = ["%d" if slot in _NUMBERS else "%s" for slot in self.slots]
        patterns = [
            rf"({_PATTERNS.get(slot, r'[0-9]+' if slot in _NUMBERS else '[^:]+')})"
            for slot in self.slots
        ]
        ends = [re.escape(literal) for literal in literals]
        object.__setattr__(self, "prefix", literals[0].encode())
        object.__setattr__(
            self, "form", _woven([literal.replace("%", "%%") for literal in literals], forms)
        )
        object.__setattr__(self, "pattern", re.compile(_woven(ends, patterns), re.DOTALL))

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(_SLOT.findall(self.text))

    @property
    def letter(self) -> str:
        """The bytes before the first colon, as text."""
        return self.text.partition(":")[0]

    def name(self, *parts: str | int | bytes) -> bytes:
        """The name with its slots filled."""
        return self.form % tuple(part.encode() if isinstance(part, str) else part for part in parts)

    def parts(self, raw: bytes) -> tuple[str | int, ...] | None:
        """The contents of the slots; None where `raw` is no name of this form."""
        match = self.pattern.fullmatch(raw)
        if match is None:
            return None
        texts = (group.decode() for group in match.groups())
        return tuple(
            int(text) if slot in _NUMBERS else text
            for slot, text in zip(self.slots, texts, strict=True)
        )


def _woven(literals: list[str], between: list[str]) -> bytes:
    return "".join(map(str.__add__, literals, [*between, ""])).encode()


@dataclass(frozen=True, eq=False)
class Key(Name):
    """A key of Redis."""

    in_jvm: bool = False


@dataclass(frozen=True, eq=False)
class Field(Name):
    """A field of a hash."""

    where: tuple[Where, ...] = ()
    value: Value = RAW
    in_jvm: bool = False
