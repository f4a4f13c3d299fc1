"""A job of Spark in a process of its own: bounded, shown while it runs, and free to be stopped at
any moment."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from slicewise.errors import ServerError, SettingsError
from slicewise.settings import Settings

_NOTIFY_EVERY_S = 5.0
"""At first; later less often, the longer it takes."""
_LOOKED_EVERY_S = 0.2


@dataclass(frozen=True)
class SparkJob:
    """A job and its arguments. Its standard input ends with the process that began it.

    script: its file in spark_jobs/. work, expected, again, without: what it does, what it leaves,
    what to do after a failure, and where there is no Spark, as its errors have it.
    """

    script: str
    arguments: tuple[str, ...]
    work: str
    expected: str
    again: str
    without: str

    def check(self, settings: Settings) -> None:
        """Raises SettingsError where there is no Spark."""
        for program in (settings.spark_python, settings.home / "spark_jobs" / self.script):
            if not program.exists():
                raise SettingsError(
                    f"there is no Spark for {self.work}: {program} does not exist",
                    where="SLICEWISE_SPARK_PYTHON, SLICEWISE_HOME",
                    expected="the Spark environment of slicewise",
                    next_step=f"make setup installs it; {self.without}",
                )

    def run(self, settings: Settings, progress: Callable[[float], None], patience_s: float) -> str:
        """Runs it to its end; what it wrote. progress: is called every few seconds with the seconds
        that it has run.

        Raises ServerError where it fails, or takes longer than its patience, and is stopped.
        """
        logs = settings.state_dir / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        file = logs / f"{Path(self.script).stem}.log"
        script = settings.home / "spark_jobs" / self.script
        # jobs of one kind may run beside each other, and each has output of its own
        with TemporaryFile(dir=logs) as output:
            process = subprocess.Popen(
                [str(settings.spark_python), str(script), *self.arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=os.environ | settings.to_env(),
            )
            try:
                self._wait(process, progress, patience_s, file)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                if process.poll() is None:
                    process.terminate()
                    process.wait(60)
                output.seek(0)
                written = output.read()
                with file.open("ab") as log:
                    log.write(written)
        text = written.decode(errors="replace")
        if process.returncode:
            raise ServerError(
                f"{self.work} failed: {failure(text)}",
                where=str(file),
                expected=self.expected,
                next_step=f"mend what the log names, and {self.again}",
            )
        return text

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        progress: Callable[[float], None],
        patience_s: float,
        file: Path,
    ) -> None:
        begun = notified = time.monotonic()
        while process.poll() is None:
            now = time.monotonic()
            if now - begun > patience_s:
                raise ServerError(
                    f"{self.work} was not done after {patience_s:.0f} s, and was stopped",
                    where=str(file),
                    expected=self.expected,
                    next_step=self.again,
                )
            if now - notified >= max(_NOTIFY_EVERY_S, (notified - begun) / 2):
                notified = now
                progress(now - begun)
            time.sleep(_LOOKED_EVERY_S)


def failure(text: str) -> str:
    """The reason why a job failed, of what it wrote: its own error, or its last line. What
    libraries write when their process ends is left out."""
    own = text.partition("\nnanobind: ")[0]
    lines = [line for line in own.splitlines() if line.strip()]
    failed = [number for number, line in enumerate(lines) if " job_failed " in line]
    reason = lines[failed[-1] + 1 :] if failed else lines[-1:]
    return "\n  ".join(line.strip() for line in reason) or "it said nothing"


def report_of(text: str) -> Mapping[str, Any]:
    """The report that a job wrote last; nothing where it wrote none."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            document: Mapping[str, Any] = json.loads(line)
            return document
    return {}
