"""Every aggregate is registered under its kind, with examples on which the law suite runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.definition import SEMANTIC
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
    """The unbound aggregate that `spec()` described: by the semantic version that it was stored by
    (docs/adr/0121). Raises DefinitionError for an unknown kind, or where the class of an earlier
    semantic version is not kept."""
    parameters = dict(spec)
    semantic = parameters.pop(SEMANTIC, 1)
    kind = parameters.pop("kind", None)
    if kind not in REGISTRY:
        raise DefinitionError(
            f"unknown aggregate kind {kind!r}",
            expected="one of " + ", ".join(sorted(REGISTRY)),
            next_step="deploy with the version of slicewise that wrote it, or apply the project again",
        )
    return _class_of(kind, semantic).of_parameters(parameters)


def _class_of(kind: str, semantic: int) -> type[Aggregate]:
    now = REGISTRY[kind].cls
    if semantic == now.semantic_version:
        return now
    kept = now.earlier.get(semantic)
    if kept is None or kept.semantic_version != semantic:
        raise DefinitionError(
            f"partials of {kind} are stored by semantic version {semantic}, and this code reads "
            f"{', '.join(map(str, sorted({*now.earlier, now.semantic_version})))}",
            expected="a version of slicewise that keeps the class which stored them",
            next_step=(
                "run the version that deployed it, and slicewise migrate with one that has both"
            ),
        )
    return kept


@dataclass(frozen=True)
class Behind:
    """An aggregate of a spec that is stored by an earlier semantic version than the code's."""

    kind: str
    stored: int
    now: int

    @staticmethod
    def of(spec: Mapping[str, Any]) -> tuple[Behind, ...]:
        """The aggregates of a spec, those within it too, that this code stores otherwise."""
        kind, stored = spec.get("kind"), spec.get(SEMANTIC, 1)
        here: tuple[Behind, ...] = ()
        if kind in REGISTRY and stored < (now := REGISTRY[kind].cls.semantic_version):
            here = (Behind(kind, stored, now),)
        inner = (value for value in spec.values() if isinstance(value, Mapping))
        return (*here, *(one for value in inner for one in Behind.of(value)))
