"""The store says which deployments stood, in their order, whatever else was written there."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slicewise.stores.lake.registered import (
    MOST,
    Registered,
    added,
    name_of,
    registered_of,
    together,
    unregistered,
)
from tests.unit.stores.test_backup import CURRENT

AT_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000


def one(version: int, store_id: int = 7, by: str = "ana", how: str = "apply") -> Registered:
    return Registered(store_id, version, "d" * 64, AT_US + version * MINUTE_US, by, how)


def test_deployments_come_back_in_the_order_in_which_they_stood() -> None:
    text = None
    for of in (one(2), one(1, store_id=8), one(1)):
        text = added(text, of)
    assert registered_of(text) == (one(1), one(2), one(1, store_id=8))


def test_who_said_it_first_made_it_but_nobody_gives_way() -> None:
    nobody = one(1, by="", how="")
    assert registered_of(added(added(None, one(1)), one(1, by="bob"), nobody)) == (one(1),)
    assert together([nobody, one(1)]) == (one(1),)


def test_a_store_that_fell_back_counts_its_versions_again_and_loses_none() -> None:
    again = replace(one(2), digest="e" * 64, at_us=AT_US + 9 * MINUTE_US)
    assert together([again, one(3), one(2)]) == (one(2), one(3), again)


def test_the_newest_are_said_where_there_are_too_many() -> None:
    text = None
    for version in range(MOST + 3):
        text = added(text, one(version))
    assert [of.version for of in registered_of(text)] == list(range(3, MOST + 3))


@pytest.mark.parametrize("text", ["", "{", "7", '{"a": 1}', '[{"version": 1}]', "[1]", "null"])
def test_what_cannot_be_read_says_nothing_and_is_no_error(text: str) -> None:
    assert registered_of(text) == ()
    assert registered_of(added(text, one(1))) == (one(1),)


@pytest.mark.parametrize(
    "wrong", [{"store_id": "7"}, {"at_us": None}, {"version": True}, {"by": 7}, {"digest": ""}]
)
def test_one_that_is_mistyped_hides_no_other(wrong: dict[str, object]) -> None:
    (raw,) = json.loads(added(None, one(1)))
    text = json.dumps([raw | wrong, raw | {"version": 2, "of_a_later_release": 1}])
    assert [of.version for of in registered_of(text)] == [2]


def test_a_name_is_of_printable_characters_and_bounded() -> None:
    assert name_of("ann\udcff\n \u00e9") == "ann \u00e9"
    assert len(name_of("x" * 1000)) == 100


@pytest.mark.parametrize(
    ("noted", "others", "at_us"),
    [
        (str(AT_US), [], AT_US),
        (str(AT_US + MINUTE_US), [one(1)], AT_US + 9 * MINUTE_US),
        (None, [], AT_US + 9 * MINUTE_US),
        ("soon", [], AT_US + 9 * MINUTE_US),
    ],
    ids=["noted", "of another", "nobody noted it", "no instant"],
)
def test_a_deployment_that_nobody_made_has_the_time_that_the_store_noted(
    noted: str | None, others: list[Registered], at_us: int
) -> None:
    now_us = AT_US + 9 * MINUTE_US
    metadata = replace(CURRENT, store_id=7, set_id=0, deployment_version=2, units="e" * 64)
    made = unregistered(metadata, others, noted, now_us)
    assert made == Registered(7, 2, "e" * 64, at_us)
