"""A definition says what is asked of which columns; it is data, and reads back from its own
text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import pyarrow as pa

from slicewise.errors import DefinitionError

SEMANTIC = "semantic"
"""Key of a spec: the semantic version that it is stored by, from the second on."""


@dataclass(frozen=True)
class Definition(ABC):
    """The first of an aggregate's three contracts: parameters, input columns and their types.

    A definition is made unbound, as `sw.sum("x")` makes it, and given the types of its columns by
    `bind`. It is frozen; every primitive reads `self` and its arguments, and changes neither.
    """

    kind: ClassVar[str]
    """Name under which it is registered and written in specs. Required; one class has it."""

    types: tuple[pa.DataType, ...] | None = field(default=None, kw_only=True, repr=False)
    """Types of `inputs`, in their order; None as long as it is unbound."""

    # ---------------------------------------------------------------- required
    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that it reads, each once.

        Required. It may depend on the parameters alone. Law: the result of any operation depends on
        no other column of a row.
        """

    @abstractmethod
    def accepts(self, column: str, kind: pa.DataType) -> str | None:
        """None if this input column may have this type, else what was expected instead.

        Required. `column` is one of `inputs`. Law: every value of an accepted type is accumulated
        without an error.
        """

    # ---------------------------------------------------------------- optional
    def answers(self, length_us: int) -> str | None:  # noqa: ARG002
        """None if it can answer a window of this length, else what was expected instead.

        Optional; by default it answers every length. Law: it bears on what may be declared, never
        on a value.
        """
        return None

    def spec(self) -> dict[str, Any]:
        """Kind and parameters as plain JSON values; `from_spec` reads them back.

        Optional; by default every field of the class but `types`. Law: as of `of_parameters`.
        """
        parameters = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "types"}
        return {"kind": self.kind, **parameters}

    def meaning(self) -> dict[str, Any]:
        """The part of the spec that bears on answers, without what is there for people to read.

        Optional; by default the whole spec. Law: two aggregates of one meaning over the same
        columns give the same values. It is part of the definition fingerprint.
        """
        return self.spec()

    def describe(self) -> str:
        """The call as a user would write it, for messages. Optional; by default kind and
        parameters."""
        left_out = ("kind", SEMANTIC)
        given = (
            f"{k}={v!r}" for k, v in self.spec().items() if k not in left_out and v is not None
        )
        return f"{self.kind}({', '.join(given)})"

    # ---------------------------------------------------------------- derived
    def type_of(self, column: str) -> pa.DataType:
        """The Arrow type of an input column of a bound aggregate. Raises DefinitionError if it is
        unbound."""
        if self.types is None:
            raise DefinitionError(
                f"{self.describe()} has no column types yet",
                next_step="call bind() with the types of the columns",
            )
        return self.types[self.inputs.index(column)]
