"""A serving process looks for garbage seldom, and never among what it imported."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from slicewise.serving.http.app import GARBAGE, create


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector of this process, which is put back."""
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_what_is_imported_is_no_garbage_and_the_rest_is_looked_through_seldom() -> None:
    create()
    assert gc.get_threshold()[0] == GARBAGE > 10_000
    assert gc.get_freeze_count() > 10_000, "modules are looked through with every collection"
