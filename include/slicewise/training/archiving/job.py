"""The archive's job in a process of its own: bounded, told while it runs, and free to be stopped at
any moment.

It is the job that compaction begins with, under the same rules: what is archived is not archived
again, and of two at once the later commits nothing of the other's (spark/lake/archive.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slicewise.errors import ServerError, SettingsError, StoreUnavailable
from slicewise.settings import Settings
from slicewise.training.archiving.pending import Log, Pending, plan_text

PATIENCE_S = 1800.0
"""An archive that takes longer is stopped: what it committed stays, and the next goes on from
there."""
_NOTIFY_EVERY_S = 5.0
"""At first; later less often, the longer it takes."""
_LOOKED_EVERY_S = 0.2


def archive_first(
    settings: Settings,
    some: Sequence[Pending],
    log: Log,
    notify: Callable[[str], None],
    patience_s: float = PATIENCE_S,
) -> None:
    """Archives these sources by the job, and returns when it is done.

    notify: is given the plan before anything starts, and a line of progress every few seconds.
    Raises SettingsError where there is no Spark, ServerError where the job fails or takes too long.
    """
    job = settings.home / "spark_jobs" / "archive.py"
    for program in (settings.spark_python, job):
        if not program.exists():
            raise SettingsError(
                f"there is no Spark to archive with: {program} does not exist",
                where="SLICEWISE_SPARK_PYTHON, SLICEWISE_HOME",
                expected="the Spark environment of slicewise",
                next_step=(
                    "make setup installs it; or let Airflow archive (DAG compact_slices), then "
                    "ask again"
                ),
            )
    for line in plan_text(some):
        notify(line)
    file = settings.state_dir / "logs" / "archive.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    argv = [str(settings.spark_python), str(job), "--json"]
    argv += [word for needed in some for word in ("--source", needed.source.name)]
    begun = time.monotonic()
    with file.open("ab") as output:
        begin = output.tell()
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | settings.to_env(),
        )
    try:
        _wait(process, some, log, notify, begun, patience_s, file)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    text = file.read_bytes()[begin:].decode(errors="replace")
    if process.returncode:
        raise ServerError(
            f"archiving failed: {failure(text)}",
            where=str(file),
            expected="an archive up to now",
            next_step="mend what the log names, and ask again: it goes on where it stopped",
        )
    for line in outcome(text):
        notify(f"{line}, after {time.monotonic() - begun:.0f} s")


def _wait(
    process: subprocess.Popen[bytes],
    some: Sequence[Pending],
    log: Log,
    notify: Callable[[str], None],
    begun: float,
    patience_s: float,
    file: Path,
) -> None:
    notified = begun
    while process.poll() is None:
        now = time.monotonic()
        if now - begun > patience_s:
            raise ServerError(
                f"archiving was not done after {patience_s:.0f} s, and was stopped",
                where=str(file),
                expected="an archive up to now",
                next_step="ask again: it goes on where it stopped",
            )
        if now - notified >= max(_NOTIFY_EVERY_S, (notified - begun) / 2):
            notified = now
            for needed in some:
                notify(f"archiving {needed.source.name}: {_left(log, needed)}, {now - begun:.0f} s")
        time.sleep(_LOOKED_EVERY_S)


def _left(log: Log, pending: Pending) -> str:
    try:
        return f"{log.pending(pending.source):,} offsets to go"
    except StoreUnavailable as error:  # the job says what it means for the archive
        return error.what


def failure(text: str) -> str:
    """The reason why the job failed, of what it wrote: its own error, or its last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    failed = [number for number, line in enumerate(lines) if " job_failed " in line]
    reason = lines[failed[-1] + 1 :] if failed else lines[-1:]
    return "\n  ".join(line.strip() for line in reason) or "it said nothing"


def outcome(text: str) -> list[str]:
    """Lines on what was archived of each source, of the report that the job wrote last."""
    return [_summary(source) for source in _report(text).get("archived", [])]


def _report(text: str) -> Mapping[str, Any]:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            document: Mapping[str, Any] = json.loads(line)
            return document
    return {}


def _summary(archived: Mapping[str, Any]) -> str:
    bad = ", ".join(f"{count:,} {reason}" for reason, count in sorted(archived["bad"].items()))
    left = f" ({bad}: bad records, kept aside)" if bad else ""
    return f"archived {archived['source']}: {archived['events']:,} offsets{left}"
