"""One folder holds all that the embedded servers keep; one lock lets one command change it at a
time."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slicewise.errors import ServerError
from slicewise.settings import ENDPOINTS

# Only a folder with this file in it is ever emptied.
_SIGN = "slicewise-state"
_LOG_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True)
class StateFolder:
    """Names and guards the parts of a state folder."""

    path: Path

    def create(self) -> None:
        """Makes the folder, for its owner only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # the sign comes first and is looked at last: another process may be making it just now
        if any(self.path.iterdir()) and not (self.path / _SIGN).exists():
            raise ServerError(
                "the state folder holds something else",
                where=str(self.path),
                expected="an empty or new folder, or one that slicewise made",
                next_step="name another one with SLICEWISE_STATE",
            )
        (self.path / _SIGN).touch()
        for folder in (self.path / "logs", self.path / "pids"):
            folder.mkdir(mode=0o700, exist_ok=True)

    def exists(self) -> bool:
        """Tells whether it stands; not while somebody else's folder is in its place."""
        return (self.path / _SIGN).exists()

    def pid_file(self, service: str) -> Path:
        return self.path / "pids" / f"{service}.json"

    def log(self, service: str) -> Path:
        return self.path / "logs" / f"{service}.log"

    def turn_log(self, service: str) -> None:
        """Puts a long log aside, so that logs stay bounded over restarts."""
        log = self.log(service)
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))

    def last_lines(self, service: str, lines: int = 15) -> str:
        """The last lines of a service's log."""
        log = self.log(service)
        if not log.exists():
            return ""
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8_192))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])

    def ports(self) -> dict[str, int]:
        """The ports that servers had last."""
        named = self._endpoints().get("ports", {})
        return {str(name): int(port) for name, port in named.items()}

    def addresses(self) -> dict[str, str]:
        """The settings that the supervisor wrote."""
        return dict(self._endpoints().get("settings", {}))

    def write_endpoints(self, ports: Mapping[str, int], addresses: Mapping[str, str]) -> None:
        """Remembers both, in one step, readable by the owner only."""
        part = self.path / f"{ENDPOINTS}.part"
        part.touch(mode=0o600)
        part.write_text(json.dumps({"settings": dict(addresses), "ports": dict(ports)}, indent=1))
        part.replace(self.path / ENDPOINTS)

    def _endpoints(self) -> dict[str, dict[str, str]]:
        file = self.path / ENDPOINTS
        try:
            return dict(json.loads(file.read_text()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ServerError(
                str(error), where=str(file), next_step="remove the file and start again"
            ) from error

    def secret(self, name: str) -> str:
        """A random secret, made once and kept readable by the owner only."""
        file = self.path / "secrets" / name
        if not file.exists():
            self._make_secret(file)
        return file.read_text()

    def _make_secret(self, file: Path) -> None:
        # nodes of a store start side by side, and share the operator's
        with self.locked("secrets"):
            if not file.exists():
                file.parent.mkdir(mode=0o700, exist_ok=True)
                part = file.with_suffix(".part")
                part.touch(mode=0o600)
                part.write_text(secrets.token_urlsafe(64))
                part.replace(file)

    @contextmanager
    def locked(self, what: str = "supervisor") -> Iterator[None]:
        """Holds the lock `what`; a killed holder leaves it free."""
        file = os.open(self.path / f"{what}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def remove(self) -> None:
        """Forgets everything; a folder that slicewise did not make is left alone."""
        if not self.path.exists():
            return
        if not (self.path / _SIGN).exists():
            raise ServerError(
                "not a folder that slicewise made: left as it is",
                where=str(self.path),
                next_step="name another folder as SLICEWISE_STATE, or remove this one by hand",
            )
        shutil.rmtree(self.path)
