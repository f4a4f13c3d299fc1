"""Every primitive of an aggregate's contract says whether it is required; what cannot be deducted
has no deduct."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from slicewise.aggregates import REGISTRY, Aggregate, Invertible
from slicewise.aggregates.definition import Definition
from slicewise.aggregates.operations import ByColumn, ByRow, Deducts
from slicewise.aggregates.stored_form import StoredForm

CONTRACTS = (Definition, StoredForm, ByColumn, ByRow, Deducts)
CLASSES = sorted(
    {type(example) for kind in REGISTRY.values() for example in kind.bound_examples()},
    key=lambda c: c.__name__,
)


def primitives(contract: type) -> Iterator[tuple[str, object]]:
    """Public methods and properties that a contract itself states."""
    for name, member in vars(contract).items():
        if (
            not name.startswith("_")
            and (callable(member) or hasattr(member, "__get__"))
            and not name.endswith("version")
        ):
            yield name, member


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda case: case.__name__)
def test_each_primitive_says_whether_it_is_required_optional_or_derived(contract: type) -> None:
    stated = dict(primitives(contract))
    assert stated
    for name, member in stated.items():
        text = inspect.getdoc(member) or ""
        required = name in contract.__abstractmethods__  # type: ignore[attr-defined]
        assert ("Required" in text) == required, name
        assert required or "Optional" in text or "Derived" in text or "Raises" in text, name


def test_the_three_contracts_state_no_primitive_twice() -> None:
    names = [name for contract in CONTRACTS for name, _ in primitives(contract)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda case: case.__name__)
def test_only_what_can_be_deducted_has_a_deduct(kind: type[Aggregate]) -> None:
    assert (
        hasattr(kind, "deduct") == hasattr(kind, "deduct_columns") == issubclass(kind, Invertible)
    )
