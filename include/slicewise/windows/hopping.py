"""Hopping windows overlap: they are longer than the hop by which the next one ends later."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.calls import checked_call
from slicewise.errors import DefinitionError
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.periodic import Periodic
from slicewise.windows.window import Window, Wrong


@dataclass(frozen=True, repr=False)
class Hopping(Periodic):
    """Windows of `length_us` that end at each multiple of `hop_us`."""

    hop_us: int

    kind = "hopping"

    def own_label(self) -> str:
        return f"{format_duration(self.length_us)}_{format_duration(self.hop_us)}"

    def wrong(self) -> Wrong:
        yield from super().wrong()
        yield not self.hop_us, "a hop, of tumbling and hopping windows alone"
        yield self.hop_us > self.length_us, "a hop of at most the length"

    def as_python(self) -> str:
        length, _, every = self._written.strip('"').rpartition("_")
        is_open = {"open": "True"} if self.open else {}
        return self._call("hopping", f'"{length}"', every=f'"{every}"', **is_open)


@checked_call
def hopping(length: str, *, every: str, open: bool = False, offset: str | None = None) -> Window:  # noqa: A002
    """Windows of `length` that end at each multiple of `every`, which is at most the length; of
    `offset` ago, where one is given. Where `every` does not divide the length, they begin between
    the multiples."""
    length_us, every_us = parse_duration(length), parse_duration(every)
    if every_us > length_us:
        raise DefinitionError(
            f"a hopping window of {length} cannot move by {every}: events would be in no window",
            expected=f"every <= {length}",
            next_step="shorten `every` or lengthen the window",
        )
    return Hopping(length_us, every_us, open=open, label=f"{length}_{every}").shifted(offset)
