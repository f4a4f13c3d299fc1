"""The wheel, alone in clean environments: the base defines, evaluates and checks; the client is
light and asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.architecture.test_extras import pins
from tests.integration.serving.support import deployment, serving
from tests.package.interpreters import interpreters
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import Event, Served

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".venvs" / "tools" / "bin" / "uv"
BASE = {"duckdb", "msgpack", "numpy", "pyarrow", "slicewise", "sqlglot", "xxhash"}
CLIENT = {"anyio", "certifi", "h11", "httpcore", "httpx", "idna"}
HELPERS = {"sniffio", "typing-extensions"}
"""Packages that anyio needs on some versions of Python."""
EVALUATES = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays", schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"}, timestamp="played_at",
    max_lateness="1d",
)
listening = sw.FeatureView(
    "listening", source=plays, entity=["user_id"], features=[sw.Feature("seconds", sw.sum("seconds"), windows=["10m"])]
)
events = [{"user_id": "ann", "seconds": s, "played_at": at} for s, at in ((90.0, 0), (0.5, 60_000_000))]
print(sw.evaluate(listening, events, [{"user_id": "ann", "at": "1970-01-01T00:05:00Z", "mode": "live"}]).to_pylist())
"""
READS = """
import asyncio, importlib.metadata, json, sys
import slicewise as sw

url = sys.argv[1]
with sw.HttpClient(url) as client:
    near = client.get("churn_v1", {"user_id": "ann"})

async def asks():
    async with sw.AsyncHttpClient(url, form="json") as client:
        return await client.get("churn_v1", {"user_id": "ann"})

far = asyncio.run(asks())
assert near.values() == far.values() and near.results[0].token
try:
    sw.count()
except sw.SlicewiseError as error:
    refused = str(error)
print(json.dumps({
    "values": near.values(),
    "imported": sorted({name.partition(".")[0] for name in sys.modules}),
    "installed": sorted(each.name.lower() for each in importlib.metadata.distributions()),
    "refused": refused,
}))
"""


def uv(*arguments: str | Path) -> None:
    done = subprocess.run(
        [str(UV), *map(str, arguments)],
        env={
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_LINK_MODE": "copy",
            **os.environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class Environment:
    """A clean environment of one interpreter, in a folder of its own; it has no pip and nothing of
    this repository."""

    def __init__(self, folder: Path, python: str, constraints: Path) -> None:
        self.bin, self.folder, self._constraints = folder / "bin", folder, constraints
        uv("venv", "-q", "--python", python, folder)

    def install(self, *what: str) -> None:
        uv("pip", "install", "-q", "--python", self.bin / "python", "-c", self._constraints, *what)

    def installed(self) -> set[str]:
        code = (
            "import importlib.metadata as m; print(*(each.name.lower() for each in "
            "m.distributions()))"
        )
        return set(self.run("python", "-c", code).stdout.replace("_", "-").split())

    def run(
        self, program: str, *arguments: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=folder or self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def succeeds(self, program: str, *arguments: str, folder: Path | None = None) -> str:
        done = self.run(program, *arguments, folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    uv(
        "build",
        "-q",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "-o",
        folder,
        ROOT,
    )
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions that are locked: what is tried does not change by what somebody publishes
    today."""
    path = tmp_path_factory.mktemp("pins") / "constraints.txt"
    path.write_text(
        "".join(
            f"{name}=={version}\n" for name, version in pins("requirements/platform.txt").items()
        )
    )
    return path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real serving process on a real store that has an event of ann's."""
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, deployment()))
        columns = {"user_id": "ann", "country": "no", "seconds": 2.5, "n": 1}
        served.apply([Event(0, 0, time.time_ns() // 1_000 - 60_000_000, columns)])
        yield stack.enter_context(serving(redis.url))


def test_the_oldest_interpreter_is_here() -> None:
    assert "3.11" in interpreters(), "the environments have it"


def test_the_wheel_holds_the_library_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"slicewise"}
    within = {name.removeprefix("slicewise/") for name in names}
    assert {
        "py.typed",
        "spark/runtime/second_compiler.json",
        "stores/online/redis/scripts/compare_and_set.lua",
        "stores/online/redis/scripts/micro_batch.lua",
        "stores/online/redis/scripts/take_pending.lua",
        "checks/report/templates/report.html",
    } <= within
    kinds = {Path(name).suffix for name in names if not name.startswith("slicewise-")}
    assert kinds == {".py", ".typed", ".json", ".lua", ".java", ".xml", ".html"}
    assert not [name for name in names if "/test/" in name or "__pycache__" in name]


@pytest.mark.parametrize("version", interpreters())
def test_the_base_defines_evaluates_and_checks(
    version: str, wheel: Path, constraints: Path, tmp_path: Path
) -> None:
    clean = Environment(tmp_path / "base", interpreters()[version], constraints)
    clean.install(str(wheel))
    assert clean.installed() == BASE
    assert "'seconds_10m': 90.5" in clean.succeeds("python", "-c", EVALUATES)
    clean.succeeds("slicewise", "init", "first", folder=tmp_path)
    assert "1 views, 1 feature sets, 1 tests passed" in clean.succeeds(
        "slicewise", "check", folder=tmp_path / "first"
    )
    assert re.search("check +type the project's definitions", clean.succeeds("slicewise", "--help"))
    for name, extra in (("Client", "serving"), ("HttpClient", "client")):
        output = clean.run("python", "-c", f"import slicewise as sw; sw.{name}").stderr
        assert "MissingExtra: the package " in output
        assert f"where: sw.{name}\n  expected: the extra '{extra}' of slicewise\n" in output
        assert f'next step: pip install "slicewise[{extra}]"' in output
    for command in ("run", "up", "status"):
        refused = clean.run("slicewise", command, folder=tmp_path / "first")
        assert refused.returncode == 1
        assert f"where: slicewise {command}" in refused.stderr
        assert 'next step: pip install "slicewise[platform]"' in refused.stderr
    clean.install(f"{wheel}[client]")
    assert BASE | CLIENT <= clean.installed() <= BASE | CLIENT | HELPERS, (
        "the extra adds what is light"
    )


@pytest.mark.parametrize("version", interpreters())
def test_the_client_asks_without_anything_heavy(
    version: str, wheel: Path, constraints: Path, url: str, tmp_path: Path
) -> None:
    clean = Environment(tmp_path / "client", interpreters()[version], constraints)
    clean.install("--no-deps", str(wheel))
    clean.install("httpx", "msgpack")
    output = json.loads(clean.succeeds("python", "-c", READS, url))
    assert output["values"] == {
        "listening:plays_1h": 1,
        "listening:seconds_1h": 2.5,
        "everyone:plays_1h": 1,
    }
    heavy = {"numpy", "pyarrow", "pandas", "duckdb", "sqlglot", "redis", "msgspec"}
    assert not heavy & {*output["imported"], *output["installed"]}
    assert "the packages of slicewise itself" in output["refused"]
    assert 'next step: pip install "slicewise"' in output["refused"]
