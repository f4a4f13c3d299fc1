"""An archive goes on with a changed schema: older rows are null in an added column, decimals as
wide as declared."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from slicewise.errors import DataLoss, DefinitionError
from slicewise.features.plan.changes.schema_change import succeeded
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import arrow_type
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.lake.archive import (
    archive_state,
    load,
    remember_schemas,
    scan_below,
    scan_events,
)
from slicewise.stores.lake.catalog import Catalog, ensure, open_catalog
from slicewise.stores.lake.schemas import log_table
from slicewise.windows.durations import HOUR_US
from tests.support.stores.archived import archive

TOPIC = "0" * 31 + "1"
START = 480_000 * HOUR_US
BEFORE = Source(
    name="plays",
    topic="plays",
    columns=(
        ("user", "string"),
        ("price", "decimal(6,2)"),
        ("note", "string"),
        ("t", "timestamp_us"),
    ),
    timestamp="t",
    time_form="us",
    max_lateness_us=HOUR_US,
    max_ahead_us=HOUR_US,
)
AFTER = replace(
    BEFORE,
    columns=(
        ("user", "string"),
        ("price", "decimal(12,2)"),
        ("agent", "string"),
        ("t", "timestamp_us"),
    ),
)
COLUMNS = ("user", "price", "agent")
UNTIL = OffsetVector({(TOPIC, 0): 1})


def event(offset: int, price: str, **more: Any) -> dict[str, Any]:
    return {
        "user": "ann",
        "price": Decimal(price),
        "t": START,
        "partition": 0,
        "offset": offset,
        **more,
    }


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """With one event, archived by the schema of before."""
    result = open_catalog(Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")}))
    archive(result, BEFORE, TOPIC, 1, [event(0, "1.25", note="x")], [], START + HOUR_US)
    return result


def test_rows_of_before_are_null_in_what_was_added_and_as_wide_as_declared(
    catalog: Catalog,
) -> None:
    old = {"user": "ann", "price": Decimal("1.25"), "agent": None}
    for evolved in (False, True):  # before the first archive of the new schema, and after it
        if evolved:
            after = event(1, "1234567890.75", agent="web")
            archive(catalog, AFTER, TOPIC, 2, [after], [event(0, "1.25")], START + 2 * HOUR_US)
        table = load(catalog, "plays")
        assert table is not None
        wanted = [old, {"user": "ann", "price": Decimal("1234567890.75"), "agent": "web"}][
            : 1 + evolved
        ]
        first = (
            archive_state(table).snapshot_id if not evolved else table.snapshots()[0].snapshot_id
        )
        for trained in (
            scan_events(table, AFTER, columns=COLUMNS),
            scan_below(table, AFTER, COLUMNS, OffsetVector({(TOPIC, 0): 9}), 0, 9),
        ):
            assert trained.select(COLUMNS).to_pylist() == wanted
            assert trained["price"].type == arrow_type("decimal(12,2)")
        at_first = scan_events(table, AFTER, columns=COLUMNS, snapshot_id=first)
        assert at_first.select(COLUMNS).to_pylist() == [old]
        assert at_first["price"].type == arrow_type("decimal(12,2)")


def test_a_removed_column_stays_and_a_narrower_decimal_or_another_scale_is_refused(
    catalog: Catalog,
) -> None:
    result = ensure(catalog, log_table(AFTER))
    assert {"note", "agent"} <= {field.name for field in result.schema().fields}
    for kind in ("decimal(6,2)", "decimal(14,3)", "string"):
        other = replace(
            AFTER, columns=tuple((n, kind if n == "price" else k) for n, k in AFTER.columns)
        )
        with pytest.raises(DefinitionError, match="column 'price' is decimal"):
            ensure(catalog, log_table(other))


def test_a_table_that_is_made_after_a_column_went_holds_it_for_records_below_the_offset() -> None:
    changed = succeeded(AFTER, BEFORE).with_until(UNTIL)
    own = [column.name for column in log_table(AFTER).columns]
    assert [column.name for column in log_table(changed).columns] == [*own, "note"]


def test_an_archive_refuses_a_history_that_does_not_go_on_from_its_own(catalog: Catalog) -> None:
    table = ensure(catalog, log_table(BEFORE))
    changed = succeeded(AFTER, BEFORE).with_until(UNTIL)
    for goes_on in (
        BEFORE,
        changed,
        changed,
        succeeded(BEFORE, changed).with_until(OffsetVector({(TOPIC, 0): 7})),
    ):
        remember_schemas(table, goes_on)
    table = ensure(catalog, log_table(BEFORE))  # as another process reads it
    elsewhere = succeeded(AFTER, BEFORE).with_until(OffsetVector({(TOPIC, 0): 2}))
    for forgotten in (BEFORE, changed, elsewhere):
        with pytest.raises(DataLoss, match="judged by a schema that the deployment does not know"):
            remember_schemas(table, forgotten)
