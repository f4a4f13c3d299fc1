"""A version is a folder that takes its number when it is whole; the file `live` is replaced, never
changed.

Processes share the folder. Locks of the operating system end with their process, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from secrets import token_hex

from slicewise.errors import BadRequest, CommitConflict, DataLoss
from slicewise.models.versions.manifest import MANIFEST, MODEL, VersionManifest

LIVE, HISTORY, NEWEST = "live", "history.jsonl", "newest"
NONE = "none"
"""Word in place of a version where none is live."""
_LOCK, _ASIDE = ".lock", ".training-"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_VERSION = re.compile(r"(.+)@([1-9][0-9]{0,8})")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def is_name(text: str) -> bool:
    """Tells whether a text may be a trained model's name; no other text becomes part of a path."""
    return _NAME.fullmatch(text) is not None


def split_version(name: str) -> tuple[str, int | None]:
    """Model and number of `delay@3`; None where the name has no number."""
    matched = _VERSION.fullmatch(name)
    return (matched[1], int(matched[2])) if matched else (name, None)


@dataclass(frozen=True)
class Promotion:
    """A change of the live version. before: None where none was live."""

    time_us: int
    by: str
    before: int | None
    after: int


class ModelFolder:
    """Versions of one model."""

    def __init__(self, models: Path, name: str) -> None:
        self.name, self.path = name, models / name

    # ------------------------------------------------------------ reading
    def numbers(self) -> list[int]:
        """Numbers of all versions, the oldest first."""
        with suppress(FileNotFoundError):
            names = [path.name for path in self.path.iterdir() if path.is_dir()]
            return sorted(int(name) for name in names if _NUMBER.fullmatch(name))
        return []

    def live(self) -> int | None:
        """Number of the live version; None before one is promoted. Raises DataLoss."""
        path = self.path / LIVE
        try:
            text = path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        if not _NUMBER.fullmatch(text):
            raise DataLoss(
                f"the live version of model {self.name!r} is {text!r}",
                where=str(path),
                expected="the number of a version",
                next_step=f"write a number into it; {HISTORY} beside it has the last one",
            )
        return int(text)

    def file(self, number: int, name: str = MODEL) -> Path:
        """A file of a version."""
        return self.path / str(number) / name

    def manifest(self, number: int) -> VersionManifest:
        """The manifest of a version; read again once its file is another. Raises DataLoss."""
        path = self.file(number, MANIFEST)
        try:
            now = path.stat()
        except OSError:
            return VersionManifest.read(path)
        return _read(path, now.st_ino, now.st_size, now.st_mtime_ns)

    def require(self, number: int, where: str) -> None:
        """Raises BadRequest where there is no such version."""
        numbers = self.numbers()
        if number not in numbers:
            raise BadRequest(
                f"there is no model {self.title(number)}",
                where=where,
                expected="one of " + ", ".join(map(self.title, numbers))
                if numbers
                else f"a version of {self.name}, which has none yet",
                next_step=f"see them: slicewise models {self.name}",
            )

    def title(self, number: int) -> str:
        """Name of a version, as delay@3."""
        return f"{self.name}@{number}"

    def history(self) -> list[Promotion]:
        """Promotions, the oldest first; a line that was cut off is left out."""
        promotions = []
        with suppress(FileNotFoundError):
            for line in (self.path / HISTORY).read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, TypeError):
                    promotions.append(Promotion(**json.loads(line)))
        return promotions

    # ------------------------------------------------------------ training
    @contextmanager
    def aside(self) -> Iterator[Path]:
        """A folder for a version in the making; gone afterwards, unless it was published.

        Clears what trainings left that were killed.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._clear()
            folder = self.path / f"{_ASIDE}{token_hex(8)}"
            folder.mkdir()
            lock = (folder / _LOCK).open("wb")
            fcntl.flock(lock, fcntl.LOCK_EX)
        with lock:
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def publish(self, aside: Path, manifest: VersionManifest) -> int:
        """Makes the next version of what stands aside. Gives its number."""
        _put(aside / MANIFEST, manifest.to_json())
        for path in aside.iterdir():
            _sync(path)
        _sync(aside)
        with self._locked():
            (aside / _LOCK).unlink()
            # a number stays taken, though its folder was removed
            given = [*self.numbers(), *(one.after for one in self.history()), self._newest()]
            number = max(given) + 1
            _put(self.path / NEWEST, f"{number}\n")
            aside.rename(self.path / str(number))
            _sync(self.path)
        return number

    # ------------------------------------------------------------ promotion
    def promote(
        self, number: int, by: str, now_us: int, instead_of: int | str | None = None
    ) -> int | None:
        """Makes a version the live one. Gives the number that was live before.

        instead_of: number that has to be live, or NONE; None for whatever is. Promoting the live
        one changes nothing. The history is written first: one that was cut off shows there alone.
        Raises BadRequest, CommitConflict.
        """
        self.require(number, "promote-model")
        with self._locked():
            before = self.live()
            if before == number:
                return before
            if instead_of is not None and instead_of != (before or NONE):
                now = "none" if before is None else self.title(before)
                other = instead_of if isinstance(instead_of, str) else self.title(instead_of)
                raise CommitConflict(
                    f"the live version of model {self.name!r} is {now}, not {other}",
                    where="--instead-of",
                    expected="the version that was live when this one was judged",
                    next_step=f"judge it beside that: slicewise backtest {self.title(number)} "
                    f"--beside {self.name}",
                )
            self._append(Promotion(now_us, by, before, number))
            _put(self.path / LIVE, f"{number}\n")
            _sync(self.path)
        return before

    # ------------------------------------------------------------ files
    def _newest(self) -> int:
        """The highest number that was given; 0 where no file says so."""
        with suppress(FileNotFoundError, ValueError):
            return int((self.path / NEWEST).read_text(encoding="utf-8"))
        return 0

    def _append(self, promotion: Promotion) -> None:
        line = json.dumps(asdict(promotion), ensure_ascii=False) + "\n"
        path = self.path / HISTORY
        if path.exists() and not path.read_bytes().endswith(b"\n"):
            line = f"\n{line}"  # one before was cut off
        with path.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def _clear(self) -> None:
        for path in self.path.glob(f"{_ASIDE}*"):
            with suppress(FileNotFoundError, BlockingIOError), (path / _LOCK).open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.path / _LOCK).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@lru_cache(maxsize=256)
def _read(path: Path, *_: int) -> VersionManifest:
    """The manifest in a file, by what tells this file from the one before."""
    return VersionManifest.read(path)


def _put(path: Path, text: str) -> None:
    """Writes a file, which takes its name when it is whole."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        _sync(scratch)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
