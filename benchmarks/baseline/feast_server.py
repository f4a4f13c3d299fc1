"""Feast's own feature server beside ours: the same features of the same entities, ready in Redis.

It is set up as its documentation has it for production (docs.feast.dev, Python feature server): a
gunicorn of one worker, without a log of every access. `--max-requests 0` leaves out the restart of
the worker after a thousand requests, which would be measured otherwise.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.whole.servers import HOME, process, until
from slicewise.features.plan.deployment import Deployment
from slicewise.local.servers import ports
from slicewise.serving.client import Client

ENVIRONMENT = HOME / ".venvs" / "feast"
PATH = "/get-online-features"
SERVICE = "compared"
EVERYBODY = {"everybody": "everybody"}
"""The key of a view that has none: of one without keys Feast 0.67 answers no value."""
Entity = dict[str, Any]


def version() -> str:
    """The version of Feast that is pinned."""
    pinned = HOME / "requirements" / "feast.in"
    return pinned.read_text(encoding="utf-8").rpartition("==")[2].strip()


@contextmanager
def serving(
    address: str,
    deployment: Deployment,
    written: Mapping[str, Sequence[Any]],
    entities: Sequence[Entity],
) -> Iterator[int]:
    """A server on a free port, which has these values. address: host:port of an empty Redis;
    written: feature -> its value of each entity."""
    views = _views(deployment, written, entities)
    with TemporaryDirectory(prefix="slicewise-feast-") as folder:
        _fill(Path(folder), {"redis": address, "service": SERVICE, "views": views})
        port = ports.choose()
        argv = [str(ENVIRONMENT / "bin" / "feast"), "--chdir", folder, "serve", "--port", str(port)]
        options = ["--workers", "1", "--no-access-log", "--max-requests", "0"]
        log = Path(folder) / "server.log"
        with process([*argv, *options], {}, log, stdout=subprocess.DEVNULL):
            until(lambda: _listens(port), "Feast's server listens", 60)
            _check(port, written, entities)
            yield port


def body_of(entity: Entity) -> dict[str, Any]:
    """A request to Feast's server for one entity."""
    return {
        "feature_service": SERVICE,
        "entities": {name: [value] for name, value in (entity | EVERYBODY).items()},
        "full_feature_names": True,
    }


def answers(url: str, features: Sequence[str], entities: Sequence[Entity]) -> dict[str, list[Any]]:
    """Feature -> its value of each entity, as slicewise answers; what is no number is text."""
    with Client(url) as client:
        rows = [client.get(features, entity).results[0].values for entity in entities]
    columns = zip(*rows, strict=True)
    return {
        name: [_plain(value) for value in column]
        for name, column in zip(features, columns, strict=True)
    }


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def _views(
    deployment: Deployment, written: Mapping[str, Sequence[Any]], entities: Sequence[Entity]
) -> list[dict[str, Any]]:
    """Per view its keys, and a row for each of its entities."""
    views = []
    for unit in deployment.units:
        own = [name for name in written if name.startswith(f"{unit.view}:")]
        if not own:
            continue
        keys = [name for name, _ in unit.entity] or list(EVERYBODY)
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for i, entity in enumerate(entities):
            key = tuple((entity | EVERYBODY)[name] for name in keys)
            values = {name.partition(":")[2]: written[name][i] for name in own}
            rows[key] = dict(zip(keys, key, strict=True)) | values
        views.append({"name": unit.view, "keys": keys, "rows": list(rows.values())})
    return views


def _fill(folder: Path, spec: Mapping[str, Any]) -> None:
    """Makes the store in a process of Feast's environment. RuntimeError with its last words."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        raise RuntimeError(f"{ENVIRONMENT} is missing: `make bench-reads` makes it")
    done = subprocess.run(
        [python, "-m", "benchmarks.baseline.feast_store", folder],
        input=json.dumps(spec),
        text=True,
        capture_output=True,
        cwd=HOME,
    )
    if done.returncode:
        raise RuntimeError(f"Feast's store was not made: {done.stderr[-2_000:]}")


def _listens(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.TransportError:
        return False


def _check(port: int, written: Mapping[str, Sequence[Any]], entities: Sequence[Entity]) -> None:
    """Raises ValueError where Feast answers another value than was written."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for i, entity in enumerate(entities):
            reply = client.post(PATH, json=body_of(entity)).raise_for_status().json()
            names = reply["metadata"]["feature_names"]
            given = {
                name: result["values"][0]
                for name, result in zip(names, reply["results"], strict=True)
            }
            for feature, values in written.items():
                value = given.get(feature.replace(":", "__"))
                if value != values[i]:
                    raise ValueError(
                        f"Feast answers {value!r} for {feature} of {entity}, "
                        f"written was {values[i]!r}"
                    )
