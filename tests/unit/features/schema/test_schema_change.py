"""A plan says what a source's new schema changes; what the archive cannot go on with is refused
before it stops one."""

from __future__ import annotations

from typing import Unpack

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError, DeploymentSuperseded
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import changes, refuse_changed_units, schema_history
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.changes.schema_change import (
    refusals,
)
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from tests.support.fields import SourceFields

SCHEMA = {
    "user_id": "string",
    "device": "string",
    "stars": "int",
    "price": "decimal(6,2)",
    "note": "string",
    "at_us": "timestamp_us",
}


def deployed(
    *more: sw.FeatureView, price: str = "price", **changed: Unpack[SourceFields]
) -> Deployment:
    """Two views over one source: one reads every column but `note`, the other the key alone."""
    given: SourceFields = {
        "name": "plays",
        "schema": SCHEMA,
        "timestamp": "at_us",
        "max_lateness": "1d",
        **changed,
    }
    source = sw.KafkaSource(**given)
    features = [
        sw.Feature("stars", sw.sum("stars"), windows=["1h"]),
        sw.Feature("devices", sw.count_by("device", max_categories=9), windows=["1h"]),
    ]
    reading = sw.FeatureView("reading", source=source, entity=["user_id"], features=features)
    paid = [sw.Feature("paid", sw.sum(price), windows=["1h"])]
    paying = sw.FeatureView(
        "paying" if price == "price" else "paying_v2", source, entity=["user_id"], features=paid
    )
    return plan(Project.of("p", [reading, paying, *more]))


def changes_of(new: Deployment) -> dict[str, tuple[str, str]]:
    """View -> kind of its change, and the reason."""
    return {change.view: (change.kind, change.reason) for change in changes(new, deployed())}


def absorbed(new: Deployment, what: str) -> None:
    """No unit is new, and the plan says what is read otherwise."""
    assert {unit.storage_fingerprint for unit in new.units} == {
        unit.storage_fingerprint for unit in deployed().units
    }
    for kind, reason in changes_of(new).values():
        assert (kind, reason.partition("from where the log ends then: ")[2]) == ("definition", what)
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
    assert {kind for kind, _ in changes_of(deployed()).values()} == {"unchanged"}


def test_a_column_that_is_wider_on_the_wire_alone_is_absorbed() -> None:
    absorbed(deployed(schema={**SCHEMA, "stars": "long"}), "column 'stars' is long, was int32")


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"required": ["note"]}, "column 'note' must be there"),
        ({"max_ahead": "3m"}, "max_ahead is 3m, was"),
        ({"paths": {"note": "$.more.note"}}, "column 'note' stands elsewhere in a record"),
        (
            {"schema": {**SCHEMA, "at_us": "timestamp_us", "x": "double"}, "allow_nan": ["x"]},
            "column 'x' (double) is",
        ),
    ],
)
def test_what_else_a_record_is_judged_by_is_told(changed: SourceFields, what: str) -> None:
    for kind, reason in changes_of(deployed(**changed)).values():
        assert kind == "definition"
        assert what in reason


def test_a_wider_decimal_is_a_new_unit_for_what_reads_it_alone_and_the_plan_says_so() -> None:
    wider = deployed(schema={**SCHEMA, "price": "decimal(12,2)"})
    result = changes_of(wider)
    assert result["reading"][0] == "definition"
    assert result["paying"][0] == "new"
    assert (
        "the source's price changed: built again from the archive, 503 until then"
        in result["paying"][1]
    )
    refuse_changed_units(wider, deployed())


@pytest.mark.parametrize("price", ["decimal(5,2)", "decimal(12,3)", "double"])
def test_a_column_of_another_type_is_refused_where_its_archive_could_not_go_on(price: str) -> None:
    other = deployed(schema={**SCHEMA, "price": price})
    for kind, reason in changes_of(other).values():
        assert kind == "refused"
        assert "and what is archived of it is" in reason
    with pytest.raises(DefinitionError, match="what is archived of it is") as refused:
        refuse_changed_units(other, deployed())
    assert "paths=" in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"topic": "plays_eu"}, "topic of source 'plays' is plays_eu, was plays"),
        (
            {"schema": {**SCHEMA, "at_us": "timestamp_ms"}},
            "time_form of source 'plays' is ms, was us",
        ),
    ],
)
def test_another_topic_or_event_time_is_refused(changed: SourceFields, what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        refuse_changed_units(deployed(**changed), deployed())


def test_one_that_no_view_reads_is_refused_as_well() -> None:
    with pytest.raises(
        DefinitionError,
        match="'note' of source 'plays' is long, and what is archived of it is string",
    ):
        refuse_changed_units(deployed(schema={**SCHEMA, "note": "long"}), deployed())


def test_a_widened_type_under_its_own_name_is_a_new_unit_for_what_reads_it_alone() -> None:
    rest = {name: kind for name, kind in SCHEMA.items() if name != "price"}
    wider = {**rest, "price_wide": "decimal(12,2)"}
    new = deployed(schema=wider, paths={"price_wide": "$.price"}, price="price_wide")
    result = changes_of(new)
    assert {view: kind for view, (kind, _) in result.items()} == {
        "reading": "definition",
        "paying_v2": "new",
        "paying": "removed",
    }
    assert (
        "column 'price_wide' (decimal(12,2)) is added; column 'price' is removed"
        in result["reading"][1]
    )
    refuse_changed_units(new, deployed())


TOPIC, OTHER = "0" * 31 + "1", "0" * 31 + "2"
ADDED = {**SCHEMA, "agent": "string"}


def source_of(deployment: Deployment) -> Source:
    return deployment.source("plays")


def test_a_changed_schema_stands_beside_the_one_before_and_has_no_offsets_at_first() -> None:
    after = joined(deployed(schema=ADDED), deployed())
    assert after.opening == ("plays",)
    assert [version.source.schema_fingerprint for version in source_of(after).earlier] == [
        source_of(deployed()).schema_fingerprint
    ]
    assert (
        source_of(after).schema_fingerprint == source_of(deployed(schema=ADDED)).schema_fingerprint
    )
    assert Deployment.from_json(after.to_json()) == after
    with pytest.raises(DeploymentSuperseded, match="has no recorded offsets yet"):
        source_of(after).judged_by(TOPIC)


def test_its_offsets_are_kept_by_whatever_is_applied_next() -> None:
    until = OffsetVector({(TOPIC, 0): 7, (OTHER, 0): 9})
    once = joined(deployed(schema=ADDED), deployed()).with_until({"plays": until})
    assert once.opening == ()
    assert Deployment.from_json(once.to_json()) == once
    assert joined(deployed(schema=ADDED), once).digest == once.digest, (
        "applied again, nothing changes"
    )
    (before, ends), (now, rest) = source_of(once).judged_by(TOPIC)
    assert (dict(before.columns).keys(), dict(ends), dict(rest)) == (SCHEMA.keys(), {0: 7}, {})
    assert now == source_of(once)

    # and a third is a version of its own, also where it says what the first did
    back = joined(deployed(), once)
    assert [version.until for version in source_of(back).earlier] == [until, None]
    assert [took.changes for took in schema_history(source_of(back))] == [
        ("column 'agent' (string) is added",),
        ("column 'agent' is removed",),
    ]


def test_a_topic_that_was_made_anew_is_judged_by_the_newest_alone() -> None:
    once = joined(deployed(schema=ADDED), deployed()).with_until(
        {"plays": OffsetVector({(TOPIC, 0): 7})}
    )
    assert [dict(ends) for _, ends in source_of(once).judged_by(OTHER)] == [{}, {}]


def test_a_required_column_goes_once_it_is_no_longer_required() -> None:
    rest = {name: kind for name, kind in SCHEMA.items() if name != "note"}
    required, free, gone = deployed(required=["note"]), deployed(), deployed(schema=rest)
    assert refusals(source_of(gone), source_of(required)) == (
        "column 'note' of source 'plays' is removed, and required",
    )
    assert (
        refusals(source_of(free), source_of(required))
        == refusals(source_of(gone), source_of(free))
        == ()
    )


def test_columns_that_are_gone_are_known_by_their_last_type_until_they_come_back() -> None:
    rest = {name: kind for name, kind in SCHEMA.items() if name not in ("note", "price")}
    recorded = {"plays": OffsetVector({(TOPIC, 0): 7})}
    wider = joined(deployed(schema={**SCHEMA, "price": "decimal(12,2)"}), deployed()).with_until(
        recorded
    )
    assert source_of(wider).removed_columns == ()
    gone = joined(deployed(schema=rest, price="stars"), wider).with_until(recorded)
    assert source_of(gone).removed_columns == (("price", "decimal(12,2)"), ("note", "string"))
    back = joined(deployed(schema={**rest, "note": "string"}, price="stars"), gone)
    assert source_of(back).removed_columns == (("price", "decimal(12,2)"),)


def test_a_column_that_comes_back_has_the_type_that_it_was_archived_by() -> None:
    rest = {name: kind for name, kind in SCHEMA.items() if name != "note"}
    without = joined(deployed(schema=rest), deployed()).with_until(
        {"plays": OffsetVector({(TOPIC, 0): 7})}
    )
    (reason,) = refusals(source_of(deployed(schema={**SCHEMA, "note": "long"})), source_of(without))
    assert reason == "column 'note' of source 'plays' is long, and what is archived of it is string"
    assert refusals(source_of(deployed()), source_of(without)) == ()
