"""A JVM maps the classes that an earlier job loaded, where they are whole and fit; no job fails
because of them.

Half of what a short job costs is the loading of 27,000 classes. Java's class data sharing
(JEP 350, a dynamic archive) keeps them in a file beside the jars, which the first job to end well
leaves and every later JVM maps. Java itself checks jars and version against it and goes on without
it where they differ, so that the digest of both in its name only tells when a new one is due. It
does not check that the file is whole, and dies of one that is not: its size stands in the name too.
A JVM that cannot make the archive exits with 1 although its job is done, so it is asked only where
a JVM that does nothing could; `classes-<digest>.none` says that it could not (a person who has
removed the cause removes it).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slicewise.log import event, warning
from slicewise.settings import Settings

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Thousands of classes cannot be kept (signed jars, generated ones): each would be a warning."""

_ROOM = 1 << 30
"""Bytes that must be free: an archive is 210 MB, and the disk is others' too."""

_PROBE_S = 60.0
_BEGINNINGS = 2
"""Beginnings of a driver in a row that may end early, for other reasons: it was killed, say."""

_GIVEN = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_BARS = ("-Xshare", "-javaagent", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit")
"""Options about archives: who gives every JVM one of these has decided, or rules them out: an agent
changes classes."""


def sharing(settings: Settings) -> str:
    """The JVM's option that maps the archive; nothing where none stands whole."""
    stem = _stem(settings)
    return _mapping(stem) if stem else ""


@contextmanager
def leaving(settings: Settings) -> Iterator[str]:
    """Within it a JVM may run with the option that is given, one at most: it maps the archive where
    one stands, and else leaves one at its end, which is kept if nothing was raised.

    If a job fails without leaving one, none of these jars is tried again: that may have been why.
    """
    stem = _stem(settings)
    option = _mapping(stem) if stem else ""
    if stem is None or option or not _can_be_left(stem):
        yield option
        return
    part = _part(stem)
    try:
        yield _leave(part)
    except Exception:
        if not part.exists():  # else it was made, and what failed is something else
            _remember(stem, "its job failed")
        raise
    else:
        with _harmless():
            _keep(part, stem)
    finally:
        with _harmless():
            part.unlink(missing_ok=True)


@contextmanager
def surviving(settings: Settings, name: str) -> Iterator[None]:
    """Within it a driver's JVM begins, which may map the archive. After some beginnings in a row
    that did not survive it the archive is removed: that may be why.

    name: of the driver; no two of a name begin at once in one state folder.
    """
    begun = settings.state_dir / "spark" / f"{name}.begun"
    with _harmless():
        begun.parent.mkdir(parents=True, exist_ok=True)
        before = begun.stat().st_size if begun.exists() else 0
        if before >= _BEGINNINGS:
            forget(settings)
        with begun.open("ab") as file:
            file.write(b".")
    yield
    with _harmless():
        begun.unlink(missing_ok=True)


def forget(settings: Settings) -> None:
    """Removes the archive, so that a new one is due: after a failure that it may have caused.

    A JVM that has it mapped keeps what it mapped.
    """
    stem = _stem(settings)
    with _harmless():
        for archive in _archives(stem) if stem else ():
            archive.unlink(missing_ok=True)
            event("classes_forgotten", archive=archive.name)


@contextmanager
def _harmless() -> Iterator[None]:
    """Passes over what the file system refuses here: it costs a later job some seconds, and this
    one nothing."""
    try:
        yield
    except OSError as error:
        warning("classes_not_kept", error=str(error))


def _keep(part: Path, stem: Path) -> None:
    """Gives what a JVM left its name, once all of it is on the disk; who leaves one too waits."""
    if not part.exists():
        return
    with _opened(part) as descriptor:
        os.fsync(descriptor)
    size = part.stat().st_size
    with _opened(stem.parent) as folder:
        os.fsync(folder)
        fcntl.flock(folder, fcntl.LOCK_EX)  # given back when the folder is closed
        if any(map(_whole, _archives(stem))):
            return  # by a job that ran meanwhile
        for old in stem.parent.glob("classes-*"):
            if _outlived(old, stem):
                old.unlink(missing_ok=True)
        part.rename(stem.with_name(f"{stem.name}-{size}.jsa"))
        os.fsync(folder)
    event("classes_archived", mib=size >> 20)


def _outlived(file: Path, stem: Path) -> bool:
    """Tells if nobody needs a file: an archive while none of these jars stands whole, the note of
    another digest, the part of a process that ended."""
    if file.suffix == ".part":
        pid = file.stem.rpartition(".")[2]
        return pid.isdecimal() and not _runs(int(pid))
    return file.suffix == ".jsa" or (file.suffix == ".none" and file.stem != stem.name)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # as somebody else
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mapping(stem: Path) -> str:
    with _harmless():
        for archive in _archives(stem):
            if _whole(archive):
                return f'"-XX:SharedArchiveFile={archive}" {_QUIET}'
    return ""


def _leave(part: Path) -> str:
    return f'"-XX:ArchiveClassesAtExit={part}" {_QUIET}'


def _archives(stem: Path) -> list[Path]:
    return sorted(stem.parent.glob(f"{stem.name}*.jsa"))


def _whole(archive: Path) -> bool:
    try:
        return archive.stem.rpartition("-")[2] == str(archive.stat().st_size)
    except FileNotFoundError:
        return False  # a job that was tried again forgot it


def _part(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.{os.getpid()}.part")


def _can_be_left(stem: Path) -> bool:
    """Tells if a JVM that does nothing else can leave an archive here; that one cannot is
    remembered."""
    java, part, why = _java(), _part(stem), ""
    with _harmless():
        if java is None or _note(stem).exists() or not os.access(stem.parent, os.W_OK):
            return False
        if shutil.disk_usage(stem.parent).free < _ROOM:
            return False
        try:
            command = [java, *shlex.split(_leave(part)), "-version"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_PROBE_S, check=False
            )
            if done.returncode == 0 and part.exists():
                return True
            why = f"exit code {done.returncode}: {(done.stdout + done.stderr)[-300:].strip()}"
        except subprocess.TimeoutExpired:
            why = f"no end within {_PROBE_S:g} s"
        finally:
            part.unlink(missing_ok=True)
        _remember(stem, why)
    return False


def _remember(stem: Path, why: str) -> None:
    warning("classes_not_left", why=why, note=_note(stem).name)
    with _harmless():
        _note(stem).touch()


def _note(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.none")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def _stem(settings: Settings) -> Path | None:
    """The stem of the names of all files about these jars and this Java; nothing without Java,
    where its options bar an archive, or while the jars are being replaced."""
    java = _java()
    if java is None or any(bar in os.environ.get(name, "") for name in _GIVEN for bar in _BARS):
        return None
    try:
        spark = settings.spark_submit.parent.parent.glob("lib/python3*/site-packages/pyspark/jars")
        files = sorted([Path(java).resolve(), *spark, *settings.spark_jars.glob("*.jar")])
        stamps = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    except OSError:
        return None
    return settings.spark_jars / f"classes-{hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]}"
