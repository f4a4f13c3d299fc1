"""A user's function that raises is reported to whoever tries the definition out; stored bytes and
answers stay the same.

Its value is null, or its row is left out, by rule and in every process alike (docs/adr/0045 to
0047). Nobody listens except where a definition is tried: elsewhere the error code alone is told.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

TEXT = "<definition>"
"""The file of a text that was compiled, in tracebacks."""
NULL = "the feature is null there, with function_error"
LEFT_OUT = "such a row is left out of the view"
MOST_SHOWN = 200


@dataclass(frozen=True)
class Raised:
    """A function that raised, or gave what it does not declare: what it did, where, and what
    follows from it."""

    what: str
    where: str
    then: str

    def message(self, times: int) -> str:
        """For people, as every refusal is."""
        count = "" if times == 1 else f" ({times} times)"
        return (
            f"{self.what}{count}: {self.then}\n  where: {self.where}\n"
            "  expected: a value of the declared type for every event, null among them\n"
            "  next step: let it answer for such an event too, or leave the event out with where="
        )


_RAISED: ContextVar[Counter[Raised] | None] = ContextVar("raised", default=None)
_WRITTEN: dict[str, tuple[str, tuple[int, ...]]] = {}


@contextmanager
def listening() -> Iterator[Counter[Raised]]:
    """Counts what functions raise inside."""
    raised: Counter[Raised] = Counter()
    before = _RAISED.set(raised)
    try:
        yield raised
    finally:
        _RAISED.reset(before)


def written(text: str, file: str, lines: Sequence[int]) -> None:
    """Remembers where a text was written: the line of the file for each of its own."""
    _WRITTEN[text] = (file, tuple(lines))


def report_raised(
    text: str, function: Callable[..., Any], did: BaseException | str, then: str
) -> None:
    """Tells whoever listens what a function of this text did. did: what it raised, or a sentence
    without its name."""
    raised = _RAISED.get()
    if raised is None:
        return
    name, line = function.__name__, function.__code__.co_firstlineno
    if isinstance(did, BaseException):
        own = [frame for frame in traceback.extract_tb(did.__traceback__) if frame.filename == TEXT]
        if own:
            name, line = own[-1].name, own[-1].lineno or line
        kind = type(did).__name__
        did = f"raised {kind}: {did}" if str(did) else f"raised {kind}"
    raised[Raised(f"{name} {_short(did)}", _position(text, line), then)] += 1


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _position(text: str, line: int) -> str:
    lines = text.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    file, of_file = _WRITTEN.get(text, ("", ()))
    at = f"{file}:{of_file[line - 1]}" if 0 < line <= len(of_file) else f"line {line} of its text"
    return f"{at}: {shown}"
