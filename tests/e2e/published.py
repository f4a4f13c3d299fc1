"""Published records equal the archive's truth: the newest record of each window is the training
side's value."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.features.plan.deployment import Deployment
from slicewise.local.servers import stream
from tests.e2e.compare import Count
from tests.support.platform.stack import Stack

VIEW, TOPIC = "by_card_and_shop", "by_card_and_shop.windows"


def check_published(platform: Stack, deployment: Deployment, source: str, folder: Path) -> int:
    """Every record of the topic, once all of the source's events are in it; the archive holds them
    too."""
    last_us = 1000 * max(stamp for _, _, _, stamp, _ in platform.records(source))
    platform.wait(
        lambda: None if _instant(platform, source) > last_us else "not yet",
        "all windows to be published",
    )
    newest, kinds = _newest(platform)
    assert min(kinds["window"], kinds["correction"]) > 20, kinds
    [unit] = deployment.view(VIEW)
    windows = {feature.window.column_suffix() for feature in unit.features}
    assert {where["window"] for where, _ in newest} == windows

    published = sorted(
        {(where["entity"]["shop"], where["entity"]["card"], where["end"]) for where, _ in newest}
    )
    given, out = folder / "published.spine.parquet", folder / "published.parquet"
    shops, cards, ends = (list(column) for column in zip(*published, strict=True))
    at = pa.array(ends, pa.int64()).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"shop": shops, "card": cards, "at": at}), given)
    refs = [f"{VIEW}:{feature.column}" for feature in unit.features]
    platform.cli("dataset", "build", "--spine", str(given), "--features", *refs, "--out", str(out))
    built: pa.Table = pq.read_table(out)
    columns = {
        ref.partition(":")[2]: built.column(
            ref if ref in built.column_names else ref.partition(":")[2]
        ).to_pylist()
        for ref in refs
    }
    row_of = {key: row for row, key in enumerate(published)}
    count = Count()
    for where, record in newest:
        row = row_of[where["entity"]["shop"], where["entity"]["card"], where["end"]]
        for column, value in record["values"].items():
            count.check(f"published {where} {column}", columns[column][row], value)
    print(
        f"published: {dict(kinds)}, {count.compared} values compared with training, "
        f"{len(count.wrong)} differ"
    )
    assert not count.wrong, "\n".join(count.wrong[:20])
    return count.compared


def _newest(platform: Stack) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], Counter[str]]:
    """Key and value of the record of the largest version of each key; how many there are of each
    kind."""
    results: dict[bytes, dict[str, Any]] = {}
    texts: dict[tuple[bytes, int], bytes] = {}
    kinds: Counter[str] = Counter()
    for key, text in platform.keyed(TOPIC):
        record = json.loads(text)
        kinds[record["kind"]] += 1
        assert texts.setdefault((key, record["version"]), text) == text, (
            "equal offset vectors, equal bytes"
        )
        if key not in results or results[key]["version"] < record["version"]:
            results[key] = record
    return [(json.loads(key), record) for key, record in results.items()], kinds


def _instant(platform: Stack, source: str) -> int:
    heartbeat = (
        stream.driver_status(platform.settings, stream.EMIT)
        .heartbeat.get("sources", {})
        .get(source, {})
    )
    return int(heartbeat.get("views", {}).get(VIEW, {}).get("instant_us", 0))
