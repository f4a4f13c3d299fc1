"""Tumbling windows lie side by side: every event is in one of them."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.calls import checked_call
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.periodic import Periodic
from slicewise.windows.window import Window


@dataclass(frozen=True, repr=False)
class Tumbling(Periodic):
    """Windows that end at each multiple of their length."""

    kind = "tumbling"

    @property
    def hop_us(self) -> int:
        return self.length_us

    def own_label(self) -> str:
        return format_duration(self.length_us)

    def as_python(self) -> str:
        return self._call("tumbling", self._written, **({"open": "True"} if self.open else {}))


@checked_call
def tumbling(length: str, *, open: bool = False, offset: str | None = None) -> Window:  # noqa: A002
    """Windows side by side: the last complete one or, with `open`, the one that is filling; of
    `offset` ago, where one is given."""
    return Tumbling(parse_duration(length), open=open, label=length).shifted(offset)
