"""Publications of a view: the windows that end at known instants, and how long it waits and looks
back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slicewise.calls import checked_class
from slicewise.errors import DefinitionError
from slicewise.windows.durations import parse_duration

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,200}")
CORRECTIONS = "1h"


@checked_class
@dataclass(frozen=True)
class Emit:
    """Publishes a view's window results to a Kafka topic, at each window's end and when a late
    event changes one.

    wait: how much later than a window's end its result is published, so that fewer events come
    late; by default at its end. corrections: for how long after its end a window is corrected; what
    it takes in memory grows with it.
    """

    topic: str
    wait: str | None = None
    corrections: str = CORRECTIONS

    def times_us(self, where: str) -> tuple[int, int]:
        """The wait and the corrections in microseconds; DefinitionError for what is no topic or no
        duration."""
        if not isinstance(self.topic, str) or not _TOPIC.fullmatch(self.topic):
            raise DefinitionError(
                f"{self.topic!r} is no topic name",
                where=where,
                expected='emit="name" or emit=sw.Emit("name", wait="1s", corrections="1h")',
                next_step="letters, digits, dot, underscore and hyphen, at most 200",
            )
        wait_us = 0 if self.wait is None else parse_duration(self.wait)
        return wait_us, parse_duration(self.corrections)
