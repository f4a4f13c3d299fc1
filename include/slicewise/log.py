"""A log line is an event: its name, then key=value; no prose, no payloads, no secrets."""

from __future__ import annotations

import json
import logging
import sys

_LOGGER = logging.getLogger("slicewise")


def to_stderr() -> None:
    """Sends events to standard error, with the time in UTC; standard output is for reports."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = __import__("time").gmtime
    handler.setFormatter(formatter)
    _LOGGER.handlers[:] = [handler]
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def event(name: str, **values: object) -> None:
    _LOGGER.info(_line(name, values))


def warning(name: str, **values: object) -> None:
    _LOGGER.warning(_line(name, values))


def _line(name: str, values: dict[str, object]) -> str:
    return " ".join([name, *(f"{key}={_text(value)}" for key, value in values.items())])


def _text(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return json.dumps(text) if not text or any(c in text for c in ' "\n=') else text


class Progress(str):
    """A line that also says how far the work is; whoever shows bars makes one of it."""

    what: str
    done: int
    of: int

    def __new__(cls, line: str, what: str, done: int, of: int) -> Progress:
        """line: for people who see no bar; what: the work, in a word or two."""
        made = super().__new__(cls, line)
        made.what, made.done, made.of = what, done, of
        return made
