"""An aggregate is a definition, a stored form, and operations by column and by row; each is a
contract of its own.

`Definition` is what is asked, `StoredForm` what is kept, `ByColumn` and `ByRow` how it is computed.
Eleven primitives are required; all others are optional or derived, and say so where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from slicewise.aggregates.definition import SEMANTIC
from slicewise.aggregates.kernel.kinds import named as named_kind
from slicewise.aggregates.operations import ByColumn, ByRow, Deducts
from slicewise.aggregates.stored_form import StoredForm
from slicewise.errors import DefinitionError


@dataclass(frozen=True)
class Aggregate(StoredForm, ByColumn, ByRow):
    """Parameters only. Made unbound (`sw.sum("x")`), given column types by `bind`.

    The stored form and the operations need a bound aggregate. Here stand the primitives
    that give an aggregate. The law suite (tests/laws) holds every registered one to the laws of its
    primitives.
    """

    earlier: ClassVar[Mapping[int, type[Aggregate]]] = {}
    """Semantic version -> the class that stored by it, kept so that what is deployed is read, and
    written, as it was until it is migrated (docs/adr/0121). Such a class is not registered."""

    # ---------------------------------------------------------------- optional
    def spec(self) -> dict[str, Any]:
        """Spec as of `Definition.spec`, with the semantic version from the second on."""
        version = self.semantic_version
        return super().spec() if version == 1 else {**super().spec(), SEMANTIC: version}

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> Aggregate:
        """The unbound aggregate of a spec's parameters.

        Optional; by default the class is called with them. It reads `parameters`, and keeps no
        reference to it. Law: `of_parameters` of `spec()` without `kind` gives an equal aggregate.
        """
        return cls(**parameters)

    def resolve(self, named: Callable[[str], str]) -> Aggregate:  # noqa: ARG002
        """The same with each condition's text given the column that holds its values.

        Optional; by default itself, as most have no condition. `named` maps a condition's text to
        its column; it is called for each condition, at any time, and gives one column for one text.
        """
        return self

    @property
    def core(self) -> Aggregate:
        """The aggregate that combines and finishes its partials: itself, or the one it wraps.

        Optional; a wrapper that only chooses events gives the wrapped one. Law: partials of both
        combine and finish alike.
        """
        return self

    def meaning(self) -> dict[str, Any]:
        return (
            super().meaning()
            if self.finish_version == 1
            else {**self.spec(), "finish": self.finish_version}
        )

    # ---------------------------------------------------------------- derived
    def bind(self, types: Mapping[str, pa.DataType]) -> Aggregate:
        """The same aggregate over columns of these types.

        Derived from `inputs` and `accepts`; a wrapper binds what it wraps too. Raises
        DefinitionError for a column that does not exist or has a type that is not accepted.
        """
        for column in self.inputs:
            if column not in types:
                raise DefinitionError(
                    f"{self.describe()} reads column {column!r}, which does not exist",
                    expected="one of " + ", ".join(sorted(types)),
                    next_step="name a column of the source or of the view's columns",
                )
            expected = self.accepts(column, types[column])
            if expected is not None:
                raise DefinitionError(
                    (
                        f"{self.describe()} cannot read column {column!r} of type "
                        f"{named_kind(types[column])}"
                    ),
                    expected=expected,
                    next_step="convert it in the view's columns, or choose another aggregate",
                )
        return replace(self, types=tuple(types[column] for column in self.inputs))


class Invertible(Aggregate, Deducts):
    """An aggregate whose combine can be undone."""
