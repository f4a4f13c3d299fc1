"""Data of an earlier version are read as it read them, to the bit: stores, tokens, deployments,
archives, data sets.

tests/fixtures/README.md says what is kept of which version, and how it was made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import redis

from slicewise.client.http import HttpClient
from slicewise.clock import ManualClock
from slicewise.features.plan.deployment import Deployment
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.stores.online.redis import open_store
from slicewise.training.archiving.offline import IcebergArchive
from slicewise.training.dataset import build_training_set, rebuild
from slicewise.training.manifest import SPINE_SUFFIX, SUFFIX, Manifest, beside
from slicewise.training.writing import parquet_bytes
from tests.fixtures import kept
from tests.fixtures.answers import board, deployment_of, parsed, refs_of, results_of, slices
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer

VERSIONS = kept.versions()
Kept = Mapping[str, Any]


@pytest.fixture(params=VERSIONS, ids=[version.name for version in VERSIONS])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def answers(folder: Path) -> Kept:
    result: Kept = kept.read_json(folder / kept.ANSWERS)
    return result


@pytest.fixture
def training(folder: Path, tmp_path: Path) -> Path:
    """The folder of the training sets."""
    return kept.unpack(folder / kept.TRAINING, tmp_path / "training")


@pytest.fixture
def deployment(folder: Path) -> Deployment:
    return Deployment.from_json((folder / kept.DEPLOYMENT).read_text().rstrip("\n"))


def test_there_are_fixtures() -> None:
    assert VERSIONS


def test_a_deployment_is_read_written_and_planned_again_as_it_was(
    folder: Path, deployment: Deployment
) -> None:
    text = (folder / kept.DEPLOYMENT).read_text().rstrip("\n")
    assert deployment.to_json() == text
    again = deployment_of(folder / kept.DEFINITIONS)
    definitions = {
        unit.storage_fingerprint: unit.definition_fingerprint for unit in deployment.units
    }
    assert {
        unit.storage_fingerprint: unit.definition_fingerprint for unit in again.units
    } == definitions
    assert [leaderboard.fingerprint for leaderboard in again.leaderboards] == [
        leaderboard.fingerprint for leaderboard in deployment.leaderboards
    ]
    assert (again.to_json(), again.digest) == (text, deployment.digest)


def test_every_kind_of_key_field_and_claim_is_kept(folder: Path) -> None:
    """A fixture without them would prove little."""
    entries = kept.entries_of((folder / kept.STORE).read_bytes())
    assert {kind for _, kind, _ in entries} == {"hash", "string", "zset"}
    hashes = {key: dict(contents) for key, kind, contents in entries if kind == "hash"}
    hot = {
        name.split(b":")[0]
        for key, fields in hashes.items()
        if key.endswith(b":hot")
        for name in fields
    }
    days = {
        name.split(b":")[0] for key, fields in hashes.items() if b":day:" in key for name in fields
    }
    metadata = {name.split(b":")[0] for name in hashes[b"sw:marks:{0}"]}
    assert hot >= {b"l", b"r", b"q", b"m", b"t"}
    assert days >= {b"c", b"d", b"h", b"p"}
    assert metadata >= {
        b"generation",
        b"epoch",
        b"units",
        b"g",
        b"s",
        b"y",
        b"a",
        b"t",
        b"e",
        b"h",
        b"k",
    }


def test_a_store_answers_as_it_did(
    folder: Path, answers: Kept, deployment: Deployment, own_redis: RedisServer
) -> None:
    assert kept.restore(own_redis.operator_url, (folder / kept.STORE).read_bytes()) > 0
    with open_store(own_redis.url) as store:
        metadata = store.run(ReadMetadata())
        assert store.run(ReadManifest(metadata.units)) == deployment.to_json()
    compared = 0
    for reply in answers["answers"]:
        answer = results_of(
            own_redis.url, reply["refs"], reply["entities"], reply["clock_us"], reply["at_us"]
        )
        assert json.loads(json.dumps(answer)) == reply["results"], (
            reply["refs"][0],
            reply["clock_us"],
            reply["at_us"],
        )
        compared += len(answer) * len(reply["refs"])
    assert board(own_redis.url, "top_songs") == answers["board"]
    print(f"{compared} values of {folder.name}")
    # all that was known is asked for, of views that stand in the definitions
    assert {ref for reply in answers["answers"] for ref in reply["refs"]} == {
        ref for view in deployment.views for ref in refs_of(deployment, view)
    }
    past = [
        reply
        for reply in answers["answers"]
        if reply["at_us"] and reply["refs"][0].startswith("listening:")
    ]
    with serving(own_redis.url) as address, HttpClient(address, timeout_s=60) as client:
        for earlier_answer in past:
            # what was served then names events that the store holds
            token = earlier_answer["results"][0]["token"]
            served = client.get(
                earlier_answer["refs"],
                earlier_answer["entities"],
                earlier_answer["at_us"],
                min_token=token,
            )
            for result, then in zip(served.results, earlier_answer["results"], strict=True):
                assert kept.bits(result.values) == then["values"]
                assert result.token == then["token"]


@pytest.mark.parametrize(("gone", "left"), [((b"h:", b"p"), b"d"), ((b"h:", b"d"), b"p")])
def test_totals_of_days_and_of_five_days_are_read(
    folder: Path, answers: Kept, own_redis: RedisServer, gone: tuple[bytes, ...], left: bytes
) -> None:
    """A total that is not known is passed over in favour of hours: here there are none."""
    kept.restore(own_redis.operator_url, (folder / kept.STORE).read_bytes())
    removed, left_any = 0, False
    with redis.Redis.from_url(own_redis.operator_url) as client:
        for key in client.scan_iter(b"*:day:202405*"):
            names = list(client.hkeys(key))
            if key[-2:] >= b"20":
                continue  # days that shorter windows share
            left_any |= left in names
            old = [name for name in names if name.startswith(gone)]
            removed += client.hdel(key, *old) if old else 0
    assert removed
    assert left_any
    compared = 0
    for reply in answers["answers"]:
        fields_20d = [(i, ref) for i, ref in enumerate(reply["refs"]) if ref.endswith("_20d")]
        if fields_20d:
            answer = results_of(
                own_redis.url,
                [ref for _, ref in fields_20d],
                reply["entities"],
                reply["clock_us"],
                reply["at_us"],
            )
            then = [[result["values"][i] for i, _ in fields_20d] for result in reply["results"]]
            assert [result["values"] for result in answer] == then
            compared += len(answer)
    assert compared


def test_tokens_say_what_they_said(answers: Kept) -> None:
    for answer in answers["answers"]:
        for result in answer["results"]:
            assert parsed(result["token"]) == result["says"]


def test_training_sets_are_built_again_to_the_same_bytes(
    folder: Path, training: Path, answers: Kept, deployment: Deployment, tmp_path: Path
) -> None:
    catalog = kept.open_archive(folder / kept.ARCHIVE, tmp_path, answers["catalog"])
    archive = IcebergArchive(catalog, "", ManualClock(0))
    result = sorted(training.glob(f"*{SUFFIX}"))
    assert len(result) == 10
    for path in result:
        table = path.with_name(path.name.removesuffix(SUFFIX) + ".parquet")
        manifest, spine = Manifest.read(path), beside(table, SPINE_SUFFIX)
        assert manifest.to_json() == path.read_text()
        assert manifest.deployed().to_json() == deployment.to_json()
        again = rebuild(archive, manifest, str(spine), str(path))
        # another writes the same values as other bytes
        if again.manifest.pyarrow == manifest.pyarrow:
            assert parquet_bytes(again.table) == table.read_bytes()
            again.to_parquet(tmp_path / table.name)
            assert (tmp_path / path.name).read_bytes() == path.read_bytes()
        assert kept.bits(again.table.to_pylist()) == kept.bits(pq.read_table(table).to_pylist())
        # not by the manifest's word for how far it goes: all that is archived now is what was
        anew = build_training_set(
            deployment, archive, pq.read_table(spine), list(manifest.features), manifest.knowledge
        )
        assert anew.table.equals(again.table)


def test_tables_of_slices_hold_what_they_held(
    folder: Path, answers: Kept, deployment: Deployment, tmp_path: Path
) -> None:
    catalog = kept.open_archive(folder / kept.ARCHIVE, tmp_path, answers["catalog"])
    assert slices(catalog, deployment) == answers["slices"]


def test_what_was_served_is_what_is_trained_on(training: Path, answers: Kept) -> None:
    """The fixtures agree with each other: the values by a token are those that were answered with
    it."""
    for view in ("listening", "sketches", "exact", "once", "ever"):
        rows = pq.read_table(training / f"{view}_token.parquet").to_pylist()
        own = [answer for answer in answers["answers"] if answer["refs"][0].startswith(f"{view}:")]
        served = [
            (answer["refs"], result["values"]) for answer in own for result in answer["results"]
        ]
        assert len(rows) == len(served)
        for row, (refs, values) in zip(rows, served, strict=True):
            assert [_plain(kept.bits(row[ref])) for ref in refs] == [
                _plain(value) for value in values
            ]


def _plain(value: Any) -> Any:
    """A struct's fields as the API orders them."""
    if isinstance(value, dict) and "object" in value:
        return {"object": sorted(_plain(value["object"]))}
    return [_plain(item) for item in value] if isinstance(value, list) else value
