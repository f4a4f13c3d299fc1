"""`slicewise sql` over the archive, real Iceberg tables, shows what it shows over the same events
in a file."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli import main
from slicewise.features.plan.planner import plan_source
from slicewise.features.project import load_project
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.windows.durations import HOUR_US
from tests.support.stores.archived import archive

EXAMPLE = Path(__file__).parents[3] / "examples" / "purchases"
SEED = 20261121
START = 1_795_000_000_000_000 // HOUR_US * HOUR_US
TAKEN = START + 6 * HOUR_US
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOPIC = "0" * 31 + "7"


def text(us: int) -> str:
    """RFC 3339 of microseconds."""
    return (EPOCH + timedelta(microseconds=us)).isoformat()


def events(n: int) -> list[dict[str, Any]]:
    """Purchases of six hours, in no order, over two partitions."""
    rng, offsets = random.Random(SEED), [0, 0]
    results = []
    for _ in range(n):
        partition = rng.randrange(2)
        results.append(
            {
                "user_id": rng.choice(["ann", "bob", "zoë"]),
                "item": rng.choice(["tea", "pan", None]),
                "price": rng.choice([rng.uniform(-1, 90), 1e300, None]),
                "bought_at": rng.randrange(START, TAKEN),
                "partition": partition,
                "offset": offsets[partition],
            }
        )
        offsets[partition] += 1
    return results


def line(event: Mapping[str, Any]) -> str:
    return json.dumps({**event, "bought_at": text(event["bought_at"])})


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[dict[str, Any]]]:
    """The rows of every view of the example's file."""
    capsys.readouterr()
    assert main(["sql", "views.sql", *arguments, "--limit", "0", "--json"]) == 0
    return [json.loads(answer)["rows"] for answer in capsys.readouterr().out.splitlines()]


def ordered(rows: list[list[dict[str, Any]]]) -> list[list[str]]:
    return [sorted(json.dumps(row, sort_keys=True) for row in answer_rows) for answer_rows in rows]


def test_the_archive_and_a_file_of_the_same_events_give_the_same_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    # nothing listens there, and nobody asks
    monkeypatch.setenv("SLICEWISE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.chdir(EXAMPLE)
    source = plan_source(load_project(EXAMPLE / "views.sql").sources[0])
    given = events(400)
    catalog = open_catalog(Settings.load())
    archive(catalog, source, TOPIC, 1, given[:250], [], TAKEN - HOUR_US)
    archive(catalog, source, TOPIC, 2, given[250:], given[:250], TAKEN)
    file = tmp_path / "purchases.jsonl"
    file.write_text("\n".join(map(line, given)), encoding="utf-8")

    compared = 0
    for arguments in (
        ["--at", text(START + 3 * HOUR_US + 17)],
        ["--start", text(START + HOUR_US), "--end", text(START + 4 * HOUR_US)],
        ["--start", text(START + 2 * HOUR_US), "--end", text(TAKEN)],
    ):
        from_archive, from_file = (
            shown(capsys, *arguments),
            shown(capsys, "--over", str(file), *arguments),
        )
        assert ordered(from_archive) == ordered(from_file)
        assert all(from_archive), arguments
        compared += sum(map(len, from_archive))
    assert compared > 300

    # Without a span: the last hour that is archived, and a note that says so.
    last = shown(capsys)
    assert ordered(last) == ordered(
        shown(capsys, "--start", text(TAKEN - HOUR_US), "--end", text(TAKEN))
    )
    assert {row["window_end"] for row in last[1]} == {text(TAKEN).replace("+00:00", "Z")}
    print(f"{compared} rows compared")


GLOBAL = """CREATE FEATURE VIEW everything WITH (global = TRUE) AS
            SELECT count(*) OVER (ORDER BY SLICE(bought_at) RANGE INTERVAL '1 hour' PRECEDING) AS n_1h FROM purchases"""


def test_a_global_view_over_the_archive_has_a_row_per_event(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.chdir(EXAMPLE)
    given = events(60)
    source = plan_source(load_project(EXAMPLE / "views.sql").sources[0])
    archive(open_catalog(Settings.load()), source, TOPIC, 1, given, [], TAKEN)
    arguments = ["--start", text(START), "--end", text(TAKEN), "--limit", "0"]
    capsys.readouterr()
    assert main(["sql", GLOBAL, *arguments, "--json"]) == 0
    (answer,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    times = sorted(event["bought_at"] for event in given)
    step = 5 * 60 * 1_000_000  # the window's slice
    expected = [sum((t - HOUR_US) // step * step <= other <= t for other in times) for t in times]
    assert [row["n_1h"] for row in answer["rows"]] == expected
    assert main(["sql", GLOBAL, *arguments]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["bought_at", "n_1h"]
    assert shown[-1] == "60 rows"
    assert [int(line.split()[1]) for line in shown[1:-1]] == expected


def test_what_is_not_archived_yet_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(EXAMPLE)
    assert main(["sql", "views.sql"]) == 1
    assert "nothing of 'purchases' is archived" in capsys.readouterr().err
