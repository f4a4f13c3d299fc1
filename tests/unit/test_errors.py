"""An error says what, where, what was expected and what next; and survives the way between
processes."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

from slicewise import errors
from slicewise.errors import BehindToken, BeyondRetention, NotReady, Overloaded, SlicewiseError

PACKAGE = Path(errors.__file__).parent
KINDS = [
    var
    for var in vars(errors).values()
    if isinstance(var, type) and issubclass(var, SlicewiseError)
]


def test_all_four_parts_are_told() -> None:
    error = SlicewiseError(
        "unknown column 'x'", where="view plays", expected="one of a, b", next_step="correct it"
    )
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


def test_every_place_that_raises_says_what_to_do_next() -> None:
    """By the sources: each error is given a next step, or is of a class that has a usual one."""
    usual = {kind.__name__ for kind in KINDS if kind.usual_next_step}
    kinds = {kind.__name__ for kind in KINDS} - usual
    made = re.compile(rf"\b(?:{'|'.join(kinds)})\b")
    results = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if made.search(text) else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in kinds
            ):
                given = {keyword.arg for keyword in node.keywords}
                if not given & {"next_step", None}:  # None: parts that are passed on
                    results.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.func.id}")
    assert not results, "\n".join(results)


def test_a_kind_with_a_usual_next_step_tells_it_unless_the_place_knows_a_better_one() -> None:
    assert "slicewise rebuild" in str(errors.CodecError("damaged"))
    assert "slicewise rebuild" not in str(errors.CodecError("damaged", next_step="another"))
