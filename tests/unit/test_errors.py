"""An error says what, where, what was expected and what next; and survives the way between processes."""

from __future__ import annotations

import pickle

import pytest

from slicewise import errors
from slicewise.errors import BehindToken, BeyondRetention, NotReady, Overloaded, SlicewiseError

KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, SlicewiseError)]


def test_all_four_parts_are_told() -> None:
    error = SlicewiseError("unknown column 'x'", where="view plays", expected="one of a, b", next_step="correct it")
    assert str(error).splitlines() == [
        "unknown column 'x'",
        "  where: view plays",
        "  expected: one of a, b",
        "  next step: correct it",
    ]


@pytest.mark.parametrize(
    "error",
    [
        SlicewiseError("a", where="b", expected="c", next_step="d"),
        NotReady("building", progress=0.25, where="unit"),
        BeyondRetention("too early", earliest_at_us=17),
        BehindToken("behind", retry_after_s=0.5),
        Overloaded("too much", retry_after_s=2.0),
    ],
)
def test_an_error_crosses_processes_whole(error: SlicewiseError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_which_decision_it_stands_for(kind: type[SlicewiseError]) -> None:
    assert kind.__doc__
