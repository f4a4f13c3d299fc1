"""A plan says what a source's new schema changes; what the archive cannot go on with is refused before it stops one."""

from __future__ import annotations

from typing import Unpack

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.definitions import Project
from slicewise.features.explain import changes, refuse_changed_units
from slicewise.features.plan import Deployment, plan
from tests.support.fields import SourceFields

SCHEMA = {
    "user_id": "string",
    "device": "string",
    "stars": "int",
    "price": "decimal(6,2)",
    "note": "string",
    "at_us": "timestamp_us",
}


def deployed(*more: sw.FeatureView, price: str = "price", **changed: Unpack[SourceFields]) -> Deployment:
    """Two views over one source: one reads every column but `note`, the other the key alone."""
    given: SourceFields = {"name": "plays", "schema": SCHEMA, "timestamp": "at_us", "max_lateness": "1d", **changed}
    source = sw.KafkaSource(**given)
    features = [
        sw.Feature("stars", sw.sum("stars"), windows=["1h"]),
        sw.Feature("devices", sw.count_by("device", max_categories=9), windows=["1h"]),
    ]
    reading = sw.FeatureView("reading", source=source, entity=["user_id"], features=features)
    paid = [sw.Feature("paid", sw.sum(price), windows=["1h"])]
    paying = sw.FeatureView("paying" if price == "price" else "paying_v2", source, entity=["user_id"], features=paid)
    return plan(Project.of("p", [reading, paying, *more]))


def said(new: Deployment) -> dict[str, tuple[str, str]]:
    """View -> kind of its change, and the reason."""
    return {change.view: (change.kind, change.reason) for change in changes(new, deployed())}


def absorbed(new: Deployment, what: str) -> None:
    """No unit is new, and the plan says what is read otherwise."""
    assert {each.storage_fingerprint for each in new.units} == {each.storage_fingerprint for each in deployed().units}
    for kind, reason in said(new).values():
        assert (kind, reason.partition("from now on: ")[2]) == ("definition", what)
    refuse_changed_units(new, deployed())


def test_an_added_column_is_absorbed() -> None:
    absorbed(deployed(schema={**SCHEMA, "agent": "string"}), "column 'agent' (string) is added")


def test_a_removed_column_that_nothing_reads_is_absorbed() -> None:
    rest = {name: kind for name, kind in SCHEMA.items() if name != "note"}
    absorbed(deployed(schema=rest), "column 'note' is removed")


def test_a_removed_column_that_a_view_reads_is_refused_by_its_name() -> None:
    with pytest.raises(DefinitionError, match="device"):
        deployed(schema={name: kind for name, kind in SCHEMA.items() if name != "device"})


def test_a_new_value_of_a_text_is_no_change_of_a_schema() -> None:
    # which values a column has is declared nowhere: nothing is deployed for a new one
    assert {kind for kind, _ in said(deployed()).values()} == {"unchanged"}


def test_a_column_that_is_wider_on_the_wire_alone_is_absorbed() -> None:
    absorbed(deployed(schema={**SCHEMA, "stars": "long"}), "column 'stars' is long, was int32")


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"required": ["note"]}, "column 'note' must be there"),
        ({"max_ahead": "3m"}, "max_ahead is 3m, was"),
        ({"paths": {"note": "$.more.note"}}, "column 'note' stands elsewhere in a record"),
        ({"topic": "plays_eu"}, "topic is plays_eu, was plays"),
        ({"schema": {**SCHEMA, "at_us": "timestamp_us", "x": "double"}, "allow_nan": ["x"]}, "column 'x' (double) is"),
    ],
)
def test_what_else_a_record_is_judged_by_is_told(changed: SourceFields, what: str) -> None:
    for kind, reason in said(deployed(**changed)).values():
        assert kind == "definition"
        assert what in reason


def test_a_column_of_another_type_is_refused_where_its_archive_could_not_go_on() -> None:
    wider = deployed(schema={**SCHEMA, "price": "decimal(12,2)"})
    for kind, reason in said(wider).values():
        assert kind == "refused"
        assert "'price' of source 'plays' is decimal(12,2), and what is archived of it is decimal(6,2)" in reason
    with pytest.raises(DefinitionError, match="'price'") as refused:
        refuse_changed_units(wider, deployed())
    assert "paths=" in str(refused.value.next_step)


def test_one_that_no_view_reads_is_refused_as_well() -> None:
    with pytest.raises(DefinitionError, match="'note' of source 'plays' is long, and what is archived of it is string"):
        refuse_changed_units(deployed(schema={**SCHEMA, "note": "long"}), deployed())


def test_a_widened_type_under_its_own_name_is_a_new_unit_for_what_reads_it_alone() -> None:
    rest = {name: kind for name, kind in SCHEMA.items() if name != "price"}
    wider = {**rest, "price_wide": "decimal(12,2)"}
    new = deployed(schema=wider, paths={"price_wide": "$.price"}, price="price_wide")
    found = said(new)
    assert {view: kind for view, (kind, _) in found.items()} == {
        "reading": "definition",
        "paying_v2": "new",
        "paying": "removed",
    }
    assert "column 'price_wide' (decimal(12,2)) is added; column 'price' is removed" in found["reading"][1]
    refuse_changed_units(new, deployed())
