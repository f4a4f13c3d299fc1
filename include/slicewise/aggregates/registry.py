"""Every aggregate is registered under its kind, with examples on which the law suite runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from slicewise.aggregates.contract import Aggregate
from slicewise.errors import DefinitionError

Kind = TypeVar("Kind", bound=type[Aggregate])


@dataclass(frozen=True)
class Registration:
    """An aggregate's class and makers of bound examples, on which the law suite runs."""

    cls: type[Aggregate]
    examples: Callable[[type[Any]], Sequence[Aggregate]]

    def bound_examples(self) -> Sequence[Aggregate]:
        """Examples that cover its parameters and the types that it reads."""
        return self.examples(self.cls)


REGISTRY: dict[str, Registration] = {}


def register(examples: Callable[[type[Any]], Sequence[Aggregate]]) -> Callable[[Kind], Kind]:
    """Class decorator: enter the aggregate under its kind, with examples for the law suite."""

    def enter(cls: Kind) -> Kind:
        if cls.kind in REGISTRY:
            raise DefinitionError(
                f"aggregate kind {cls.kind!r} is registered twice",
                next_step="give one of the classes another kind",
            )
        REGISTRY[cls.kind] = Registration(cls, examples)
        return cls

    return enter


def from_spec(spec: Mapping[str, Any]) -> Aggregate:
    """The unbound aggregate that `spec()` described. Raises DefinitionError for an unknown kind."""
    parameters = dict(spec)
    kind = parameters.pop("kind", None)
    if kind not in REGISTRY:
        raise DefinitionError(
            f"unknown aggregate kind {kind!r}",
            expected="one of " + ", ".join(sorted(REGISTRY)),
            next_step="deploy with the version of slicewise that wrote it, or apply the project again",
        )
    return REGISTRY[kind].cls.of_parameters(parameters)
