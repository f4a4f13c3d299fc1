"""The store says which deployments stood, in their order, whatever else was written there."""

from __future__ import annotations

import json

import pytest

from slicewise.stores.lake.registered import MOST, Registered, added, registered_of


def one(version: int, store_id: int = 7, by: str = "ana") -> Registered:
    return Registered(store_id, version, "d" * 64, 1_700_000_000_000_000 + version, by, "apply")


def test_deployments_come_back_in_the_order_in_which_they_stood() -> None:
    text = None
    for of in (one(2), one(1, store_id=8), one(1)):
        text = added(text, of)
    assert registered_of(text) == (one(1), one(2), one(1, store_id=8))


def test_a_deployment_that_is_said_twice_is_one() -> None:
    text = added(added(None, one(1)), one(1, by="bob"))
    assert [of.by for of in registered_of(text)] == ["bob"]


def test_the_newest_are_said_where_there_are_too_many() -> None:
    text = None
    for version in range(MOST + 3):
        text = added(text, one(version))
    assert [of.version for of in registered_of(text)] == list(range(3, MOST + 3))


@pytest.mark.parametrize("text", ["", "{", "7", '{"a": 1}', '[{"version": 1}]', "[1]"])
def test_what_cannot_be_read_says_nothing_and_is_no_error(text: str) -> None:
    assert registered_of(text) == ()
    assert registered_of(added(text, one(1))) == (one(1),)


def test_texts_are_json() -> None:
    assert json.loads(added(None, one(1)))[0]["by"] == "ana"
