"""The history of figures is a file of lines per day beside the platform's state; a day that is old
goes whole.

It outlives the store, whose loss it is to show. A line is appended in one write, so that several
processes need no lock; a line that cannot be read is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slicewise.lifecycle.history.entries import Entry, is_entry
from slicewise.log import warning
from slicewise.settings import Settings

KEPT_DAYS = 36
"""Days of which files are kept: the longest window of a report, and the day that is not over."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def folder(settings: Settings) -> Path:
    """Folder of the history's files."""
    return settings.state_dir / "reports" / "history"


def checks(settings: Settings) -> Path:
    """Folder of the checks' reports."""
    return settings.state_dir / "reports" / "check"


def versions(settings: Settings) -> Path:
    """Folder of the pages on which versions of views were compared."""
    return settings.state_dir / "reports" / "versions"


def keep(settings: Settings, entry: Entry | None) -> None:
    """Appends an entry. Where that fails nothing else does: a warning says so. The state folder
    stands: one that is made without its sign would be somebody else's."""
    if entry is None:
        return
    day = _day(int(entry["at_us"]))
    file = folder(settings) / f"{day:%Y-%m-%d}.jsonl"
    # a line break before it too: a line that a full disk cut short has none
    line = b"\n" + json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    try:
        is_new = not file.exists()
        file.parent.parent.mkdir(mode=0o700, exist_ok=True)
        file.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
        if is_new:
            _drop_before(file.parent, day - timedelta(days=KEPT_DAYS))
    except OSError as error:
        warning("figures_not_kept", file=str(file), error=str(error))


def read(settings: Settings, since_us: int) -> tuple[Entry, ...]:
    """Entries since then, in the order of their times."""
    return tuple(sorted(_since(folder(settings), since_us), key=lambda entry: int(entry["at_us"])))


def _since(root: Path, since_us: int) -> Iterator[Entry]:
    import msgspec  # not in Spark's environment, where figures are kept and never read

    first = f"{_day(since_us):%Y-%m-%d}.jsonl"
    for file in sorted(root.glob("????-??-??.jsonl")):
        if file.name < first:
            continue
        try:
            lines = file.read_bytes().splitlines()
        except OSError as error:
            warning("figures_not_read", file=str(file), error=str(error))
            continue
        for line in lines:
            try:
                raw = _decoded(line, msgspec.json.decode)
            except ValueError:
                continue  # of a disk that was full
            if is_entry(raw) and raw["at_us"] >= since_us:
                yield raw


def _decoded(line: bytes, decode: Callable[[bytes], Any]) -> Any:
    try:
        return decode(line)
    except ValueError:
        return json.loads(line)  # a figure that is no number, which JSON proper has no word for


def _drop_before(root: Path, day: datetime) -> None:
    for file in root.glob("????-??-??.jsonl"):
        if file.name < f"{day:%Y-%m-%d}":
            file.unlink(missing_ok=True)


def _day(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
