"""A JVM maps the classes that an earlier job loaded, where they fit; where they do not, it loads its own.

Half of what a short job costs is the loading of 27,000 classes. Java's class data sharing
(JEP 350, a dynamic archive) keeps them in a file beside the jars, which the first job to end well
leaves and every later JVM maps. Java itself checks jars and version against it and goes on without
it where they differ, so that the name, a digest of both, only tells when a new one is due.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slicewise.log import event
from slicewise.settings import Settings

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Thousands of classes cannot be kept (signed jars, generated ones): each would be a warning."""


def sharing(settings: Settings) -> str:
    """The JVM's option that maps the archive; nothing where there is none."""
    file = _file(settings)
    return f'"-XX:SharedArchiveFile={file}" {_QUIET}' if file.exists() else ""


@contextmanager
def leaving(settings: Settings) -> Iterator[str]:
    """Within it a JVM may run with the option that is given: at its end it leaves the archive, which
    is kept if nothing was raised. No option where one stands, or cannot be kept."""
    file = _file(settings)
    if file.exists() or not os.access(file.parent, os.W_OK):
        yield ""
        return
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        yield f'"-XX:ArchiveClassesAtExit={part}" {_QUIET}'
        if part.exists():
            for old in set(file.parent.glob("classes-*")) - {part}:
                old.unlink(missing_ok=True)  # of other jars, or half written; a JVM that has it mapped keeps it
            part.rename(file)
            event("classes_archived", mib=file.stat().st_size >> 20)
    finally:
        part.unlink(missing_ok=True)


def _file(settings: Settings) -> Path:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    spark = settings.spark_submit.parent.parent.glob("lib/python3*/site-packages/pyspark/jars")
    files = [Path(java).resolve()] if java else []
    files += [*spark, *settings.spark_jars.glob("*.jar")]
    known = ((str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in sorted(files))
    digest = hashlib.sha256(repr(list(known)).encode()).hexdigest()[:16]
    return settings.spark_jars / f"classes-{digest}.jsa"
