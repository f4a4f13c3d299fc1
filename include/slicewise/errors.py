"""Every error of slicewise says what was wrong, where, what was expected and what to do next."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import ClassVar


@dataclass(frozen=True)
class Location:
    """File and line where a definition was written, for messages; `within`: and where in the line,
    or in its SQL."""

    file: str
    line: int
    within: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}{self.within}"


def written_at() -> Location | None:
    """The place outside of this package at which the definition under way is written."""
    package = str(Path(__file__).parent)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((package, "<")):
            return Location(file, frame.f_lineno)
        frame = frame.f_back
    return None


class SlicewiseError(Exception):
    """Base of all errors that slicewise raises on purpose.

    A subclass exists for each decision that a caller can take; the text is for people, the
    attributes for programs.
    """

    usual_next_step: ClassVar[str | None] = None
    """The next step where the place that raises knows none that is better."""
    lasting: ClassVar[bool] = False
    """Tells whether the same call would fail again: somebody has to change something first."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.next_step = next_step or self.usual_next_step

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"where: {self.where}")
        if self.expected:
            parts.append(f"expected: {self.expected}")
        if self.next_step:
            parts.append(f"next step: {self.next_step}")
        return "\n  ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross processes (Spark's workers, Airflow's): keyword arguments and a subclass's
        # own attributes must survive pickling.
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[SlicewiseError], state: dict[str, object]) -> SlicewiseError:
    error = kind.__new__(kind)
    Exception.__init__(error, state["what"])
    error.__dict__.update(state)
    return error


class DefinitionError(SlicewiseError):
    """A definition cannot be what its author wrote: correct the definition."""

    lasting = True


class WrongCall(DefinitionError, TypeError):
    """A definition, or what asks it, is called with arguments that it does not take: correct the
    call."""


class UnknownAttribute(DefinitionError, AttributeError):
    """slicewise has no such name: write the one that it has."""


class FunctionRaised(UserWarning):
    """A function of the user's own raised on some events: its value is null there, or the row is
    left out."""


class SettingsError(SlicewiseError):
    """A setting is missing or malformed, or a program that it names is not there."""

    lasting = True


class MissingExtra(SlicewiseError, ImportError):
    """A part of slicewise needs packages that are not installed: install the extra that it
    names."""

    lasting = True


class BadRequest(SlicewiseError):
    """A request is malformed: correct the request."""

    lasting = True


class BodyTooLarge(BadRequest):
    """A request's body is larger than any that is read: ask in several requests."""


class BodyTooSlow(BadRequest):
    """A request's body did not arrive in time: send it again, whole."""


class NotAcceptable(BadRequest):
    """A request accepts none of the forms that an answer has: ask for one that there is."""


class RangeRefused(BadRequest):
    """A range lies outside of the file: ask for one inside of it."""


class UnknownName(SlicewiseError):
    """A request names a view, feature, feature set or column that does not exist."""

    lasting = True


class CodecError(SlicewiseError):
    """Stored or received bytes are not what the format says: nothing was decoded from them."""

    lasting = True

    usual_next_step = "make the view again from the archive: slicewise rebuild <view>"


class StoreUnavailable(SlicewiseError):
    """A store did not answer: try again, or use the declared behaviour on failure."""


class ServerRunChanged(StoreUnavailable):
    """The store restarted or failed over: what was read or written belongs to another server run of
    it.

    Start again from the store's own metadata.
    """


class TopicGone(StoreUnavailable):
    """The log knows no topic of this name: what is read under it from now on may be another's."""


class GapRefused(SlicewiseError):
    """A write would leave out the events between the committed offsets and the batch: start at the
    committed offsets."""


class DeploymentSuperseded(SlicewiseError):
    """A newer deployment stands: read it and plan again."""


class DriverSuperseded(SlicewiseError):
    """Another driver of the same part was started later, and goes on in this one's place."""


class NoResult(SlicewiseError):
    """A training set that was requested has no result: it waits, is built, failed or was
    cancelled."""


class NotReady(SlicewiseError):
    """A unit is still being built."""

    def __init__(
        self,
        what: str,
        *,
        progress: float,
        where: str | None = None,
        expected: str | None = None,
        next_step: str | None = None,
    ) -> None:
        """progress: the part that is built, from 0 to 1."""
        super().__init__(what, where=where, expected=expected, next_step=next_step)
        self.progress = progress


class Recovering(NotReady):
    """The store lost what it had applied, and gets it again: what it holds is right, and older than
    what was seen."""


class BeyondRetention(SlicewiseError):
    """A window reaches before what the online store keeps: ask later, or offline."""

    def __init__(
        self,
        what: str,
        *,
        earliest_at_us: int,
        where: str | None = None,
        expected: str | None = None,
        next_step: str | None = None,
    ) -> None:
        """earliest_at_us: the earliest `at` that can be answered, in microseconds UTC."""
        super().__init__(what, where=where, expected=expected, next_step=next_step)
        self.earliest_at_us = earliest_at_us


class RetryLater(SlicewiseError):
    """Request that cannot be answered now, and can be soon."""

    def __init__(
        self,
        what: str,
        *,
        retry_after_s: float,
        where: str | None = None,
        expected: str | None = None,
        next_step: str | None = None,
    ) -> None:
        """retry_after_s: seconds after which asking again is worth it."""
        super().__init__(what, where=where, expected=expected, next_step=next_step)
        self.retry_after_s = retry_after_s


class BehindToken(RetryLater):
    """The store does not yet contain all that the given token contains: ask again."""


class Overloaded(RetryLater):
    """More is asked than can be answered in time: ask less, or ask again later; nothing was
    done."""


class OverShare(Overloaded):
    """This client asks for more than its share, while others ask too: ask less."""


class ServerError(SlicewiseError):
    """An embedded server did not start, does not answer, or did not stop."""


class ClockOff(SlicewiseError):
    """This process's clock is not that of the store: set it right; nothing was written."""


class CommitConflict(SlicewiseError):
    """Another writer committed first: read the table again and decide anew."""


class DataLoss(SlicewiseError):
    """Events or state that an answer needs are gone: repair by replay."""


class UnknownArchive(DataLoss):
    """Compacted data names an archive that nothing tells of: compact the hours again that name
    it."""


def wire_of(error: SlicewiseError) -> dict[str, str | None]:
    """Members by which another process raises the error again; `kind` is its nearest class here."""
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == __name__)
    return {
        "kind": kind,
        "what": error.what,
        "where": error.where,
        "expected": error.expected,
        "next_step": error.next_step,
    }
