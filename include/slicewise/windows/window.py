"""A window is one of a few frozen classes; each answers the same questions, and none can hold
another's fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from slicewise.calls import checked_call
from slicewise.errors import DefinitionError, written_at
from slicewise.windows.bounds import Mode, Smaller, ceil
from slicewise.windows.durations import LONGEST_US, format_duration, parse_duration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Kind = Literal["sliding", "tumbling", "hopping", "session", "exact", "rows", "lifetime"]
"""Names of windows as they are stored; each is the `kind` of one class."""
Wrong = Iterator[tuple[bool, str]]
"""Pairs of whether something is wrong with a window, and what is expected instead."""

_KINDS: dict[str, type[Window]] = {}
_STORED: dict[str, Any] = {
    "length_us": 0,
    "hop_us": 0,
    "open": False,
    "label": "",
    "offset_us": 0,
    "closed": "both",
    "rows": 0,
    "gap_us": 0,
}
"""Fields of a stored window besides its kind, in their order, each with its value where a window
has none."""


class _ByKind(type):
    """Makes `Window(kind, …)` an instance of the class of that kind."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Window:
            return _from_stored(*args, **kwargs)
        return super().__call__(*args, **kwargs)


@dataclass(frozen=True, repr=False, init=False)
class Window(metaclass=_ByKind):
    """The interval that a feature answers for.

    `label` is the author's own text of the window; columns are named by it. `offset_us`: at t it is
    the window of t - offset. `Window(kind, length_us, …)` makes a window of the fields that are
    stored of it.
    """

    label: str = field(default="", kw_only=True)
    offset_us: int = field(default=0, kw_only=True)

    kind: ClassVar[Kind]
    by_events: ClassVar[bool] = False
    """Tells whether it is answered from events, one by one, instead of from slices."""
    unbounded: ClassVar[bool] = False
    """Tells whether it holds all events up to its end, as UNBOUNDED PRECEDING."""

    if TYPE_CHECKING:
        # Each class answers these.

        def __new__(
            cls,
            kind: Kind,
            length_us: int,
            hop_us: int = 0,
            open: bool = False,  # noqa: A002
            label: str = "",
            offset_us: int = 0,
            closed: str = "both",
            rows: int = 0,
            gap_us: int = 0,
        ) -> Window: ...

        @property
        def length_us(self) -> int:
            """The length in microseconds; 0 where no length bounds it."""

        def own_label(self) -> str:
            """The text of a window for which its author wrote none."""

        def wrong(self) -> Wrong:
            """Tells what may be wrong with its own fields."""

        def resolution(self, slice_us: int) -> int:
            """The step to which its bounds are aligned."""

        def reach_us(self, slice_us: int) -> int:
            """The longest distance from t back to a live window's start, in microseconds (never
            exceeded); 0 of rows, which time does not bound; of a lifetime, how far before t its end
            can lie that may still be asked for."""

        def holds_end(self, mode: Mode) -> bool:
            """Tells whether the last instant of its bounds is the one that was asked for, and in
            the window.

            Ages are then counted from that instant, which is a microsecond before the half-open
            end; of other windows from the end itself. So an exact window's ages are those at t -
            offset, whichever ends are closed; and so are those of a query's row, which holds the
            events of its own instant.
            """

        def as_python(self) -> str:
            """The text by which a definition writes it."""

        def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:
            """(start, end) of the window without its offset: one arithmetic for a number and for a
            column of them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):
            _KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        self._check()
        if not self.label:
            shift = f"_offset_{format_duration(self.offset_us)}" if self.offset_us else ""
            object.__setattr__(self, "label", self.own_label() + shift)

    def _check(self) -> None:
        for wrong, expected in self._wrong_types():
            if wrong:
                raise _refused(self.stored(), expected)
        for wrong, expected in self.wrong():
            if wrong:
                raise _refused(self.stored(), expected)
        for wrong, expected in (
            (
                max(self.length_us, self.offset_us) > LONGEST_US,
                f"at most {format_duration(LONGEST_US)}",
            ),
            (not re.fullmatch("[0-9A-Za-z_]*", self.label), "a label of letters, digits and _"),
        ):
            if wrong:
                raise _refused(self.stored(), expected)

    def _wrong_types(self) -> Wrong:
        own = {own_field.name: getattr(self, own_field.name) for own_field in fields(self)}
        whole = [value for name, value in own.items() if type(_STORED[name]) is int]
        yield not isinstance(own.get("open", False), bool), "open=True or open=False"
        yield not isinstance(self.label, str), "label: a text, or none"
        yield (
            not all(type(value) is int and value >= 0 for value in whole),
            "lengths in whole microseconds",
        )

    def __repr__(self) -> str:
        return _shown(self.stored())

    def column_suffix(self) -> str:
        """The window's part of a column's name, such as "1h", "tumbling_1h_open" or
        "lifetime_offset_1d"."""
        return f"{self.kind}_{self.label}"

    def stored(self) -> dict[str, Any]:
        """Every field that a window may have, as it is stored and as fingerprints cover it."""
        return {
            "kind": self.kind,
            **{name: getattr(self, name, absent) for name, absent in _STORED.items()},
        }

    def to_json(self) -> dict[str, Any]:
        """Arguments from which `Window` makes an equal one."""
        rare = () if self.by_events else ("closed", "rows")
        return {name: value for name, value in self.stored().items() if name not in rare}

    @property
    def most_rows(self) -> int:
        """The number of newest events that it is bounded to; 0: all between its bounds."""
        return 0

    @property
    def session_gap_us(self) -> int:
        """The longest distance between events of one session; 0: its bounds alone say which events
        are in it."""
        return 0

    @property
    def reads_five_days(self) -> bool:
        """Tells whether it is read by totals of five days: it holds one wherever it begins, and
        mostly more."""
        return False

    @property
    def ends_complete(self) -> bool:
        """Tells whether it ends at instants that are known beforehand, each of them complete."""
        return False

    @property
    def grain_us(self) -> int:
        """The shortest length that ten slices must fit into; 0: any slice does."""
        return self.length_us

    def steps_us(self) -> tuple[int, ...]:
        """Lengths that a slice must divide."""
        return tuple(step for step in (self.length_us, self.offset_us) if step)

    def check_slice(self, slice_us: int) -> None:
        """Refuse a slice that does not divide every length, hop and offset."""
        text = format_duration(slice_us)
        for step in self.steps_us():
            if step % slice_us:
                raise DefinitionError(
                    f"the window {self.column_suffix()} is not divisible by the slice {text}: "
                    f"{format_duration(step)} is no multiple of it",
                    expected=f"lengths, hops and offsets that are multiples of {text}",
                    next_step="change the window or the declared slice",
                )

    def ends_every(self, slice_us: int) -> int:
        """The distance between its ends, where each is complete."""
        return self.resolution(slice_us)

    def bounds(self, mode: Mode, t_us: int, slice_us: int) -> tuple[int, int]:
        """(start, end) of the window read at t, half-open. Of exact windows the same in every mode.

        live: up to the slice in which t lies, that one included. at: whole slices before t.
        event_time: ends at t exactly; only this end can lie inside a slice. row: as event_time,
        with the events of t itself, as a query answers for the row of an event. An open
        window ends where a sliding one of the same mode does: it never contains what lies after t.
        With an offset they are the bounds at t - offset: a row of then answers what was asked then.
        Of a session they are those within which it is looked for: where it starts follows from the
        events.
        """
        start, end = self._bounds(mode, t_us - self.offset_us, slice_us, min)
        return int(start), int(end)

    def bounds_columns(
        self, mode: Mode, t_us: npt.NDArray[np.int64], slice_us: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """`bounds` for a whole column of t (int64 microseconds)."""
        import numpy as np

        start, end = self._bounds(mode, t_us - self.offset_us, slice_us, np.minimum)
        return start, end

    def earliest_at(self, kept_us: int, slice_us: int) -> int:
        """The first t at which it starts at or after kept_us; of a lifetime, ends there."""
        return ceil(kept_us, self.resolution(slice_us)) + self.length_us + self.offset_us

    def shifted(self, offset: str | None) -> Self:
        """The same window of `offset` ago; None: itself."""
        if offset is None:
            return self
        return replace(
            self, offset_us=parse_duration(offset), label=f"{self.label}_offset_{offset}"
        )

    def _call(self, name: str, *first: str, **options: str) -> str:
        """A call of a definition: its arguments, its own options, and its offset as its author
        wrote it."""
        _, _, offset = self.label.partition("_offset_")
        given = {**options, **({"offset": f'"{offset}"'} if offset else {})}
        return f"sw.{name}({', '.join([*first, *(f'{option}={value}' for option, value in given.items())])})"

    @property
    def _written(self) -> str:
        """The label without the offset, as a Python text."""
        return f'"{self.label.partition("_offset_")[0]}"'


_ELSEWHERE = {
    "length_us": "a length, unless it counts rows or holds all events",
    "hop_us": "a hop, of tumbling and hopping windows alone",
    "gap_us": "a gap, of a session alone",
    "rows": "rows, of a rows window alone",
    "open": "open=True of tumbling and hopping windows alone",
    "closed": "closed, of exact ones",
}
"""Expected of a stored window whose class has no such field."""


def _stored_window(
    kind: Kind,
    length_us: int,
    hop_us: int = 0,
    open: bool = False,  # noqa: A002
    label: str = "",
    offset_us: int = 0,
    closed: str = "both",
    rows: int = 0,
    gap_us: int = 0,
) -> Window:
    values = (length_us, hop_us, open, label, offset_us, closed, rows, gap_us)
    given = {"kind": kind, **dict(zip(_STORED, values, strict=True))}
    if kind not in get_args(Kind):
        raise _refused(given, f"kind: one of {', '.join(get_args(Kind))}")
    of_kind = _KINDS[kind]
    make: Any = of_kind
    window: Window = make(**{own.name: given[own.name] for own in fields(of_kind)})
    stored = window.stored()
    for name, expected in _ELSEWHERE.items():
        if stored[name] != given[name] or type(stored[name]) is not type(given[name]):
            is_other_hop = name == "hop_us" and given[name] and stored[name]
            raise _refused(
                given, "a hop that is the length of a tumbling window" if is_other_hop else expected
            )
    return window


_stored_window.__name__ = "Window"  # the name that a refused call shows
_from_stored = checked_call(_stored_window)


def _shown(stored: dict[str, Any]) -> str:
    return f"Window({', '.join(f'{name}={value!r}' for name, value in stored.items())})"


def _refused(stored: dict[str, Any], expected: str) -> DefinitionError:
    location = written_at()
    return DefinitionError(
        f"{_shown(stored)} is no window",
        where=str(location) if location else "",
        expected=expected,
        next_step="make it by sw.sliding, sw.tumbling, sw.hopping, sw.session, sw.lifetime, … or sw.rows",
    )
