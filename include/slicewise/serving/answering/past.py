"""Past instants that the store no longer keeps are questions to the archive, answered in the usual
form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.features.schema.types import arrow_type
from slicewise.serving.answering.answer import Answer, EntityAnswer
from slicewise.serving.answering.catalog import Catalog, Selection, value_of
from slicewise.serving.answering.planned import plan_selection
from slicewise.serving.answering.requests import FeaturesRequest

OFFLINE = "offline"
"""Flag of an answer of the archive."""


@dataclass(frozen=True)
class PastQuestion:
    """A request that was found good, and what it reads by a deployment."""

    request: FeaturesRequest
    catalog: Catalog
    selection: Selection

    @property
    def at_us(self) -> int:
        """The instant that is asked for."""
        assert self.request.at_us is not None
        return self.request.at_us

    def message(self) -> bytes:
        """Bytes that the reader of archives takes (`slicewise.training.past`).

        A line of JSON, and an Arrow stream of the entities, typed as their columns are, with `at`.
        """
        import pyarrow as pa  # loaded with the first answer of the archive

        types = {**self.selection.columns, **self.selection.question_types}
        columns = {name: self._column(name, kind) for name, kind in types.items()}
        at = pa.array([self.at_us] * len(self.request.entities), pa.timestamp("us", "UTC"))
        table = pa.table({**columns, "at": at})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        body: bytes = sink.getvalue().to_pybytes()
        line = {
            "digest": self.catalog.digest,
            "features": self.selection.refs,
            "size": len(body),
        }
        return json.dumps(line).encode() + b"\n" + body

    def _column(self, name: str, kind: str) -> Any:
        import pyarrow as pa

        values = [entity[name] for entity in self.request.entities]
        several = any(isinstance(value, list) for value in values)
        typed: list[Any] = []
        for i, value in enumerate(values):
            if several:
                some = value if isinstance(value, list) else [value]
                typed.append([_typed(one, kind, name, i) for one in some])
            else:
                typed.append(_typed(value, kind, name, i))
        one = arrow_type(kind)
        return pa.array(typed, pa.list_(one) if several else one)

    def answer(self, header: Mapping[str, Any], body: bytes) -> Answer:
        """The answer of what the reader gave: errors and what lacks events, and an Arrow stream of
        the values. It has no tokens."""
        import pyarrow as pa

        request, selection = self.request, self.selection
        table = pa.ipc.open_stream(body).read_all()
        columns: list[list[Any]] = []
        for position, ref in enumerate(selection.refs):
            values = list(selection.converters[position](table[ref].combine_chunks()))
            if position in selection.memberships:
                values = self._in_their_forms(selection.memberships[position].question, values)
            default = None if selection.defaults is None else selection.defaults[position]
            columns.append(
                values if default is None else [default if v is None else v for v in values]
            )
        codes: list[dict[str, str]] = [{} for _ in request.entities]
        for ref, rows in header["errors"].items():
            for row, code in rows.items():
                codes[int(row)][ref] = code
        results = tuple(
            EntityAnswer(entity, values, "", codes[i])
            for i, (entity, values) in enumerate(
                zip(request.entities, zip(*columns, strict=True), strict=True)
            )
        )
        lacking = tuple(header["incomplete"])
        flags = (
            OFFLINE,
            *(("overflow",) if any(codes) else ()),
            *(("incomplete",) if lacking else ()),
        )
        return Answer(
            selection.refs,
            "at",
            self.at_us,
            plan_selection(self.catalog, selection, "at", self.at_us, ()).bounds,
            results,
            (),
            flags,
            lacking,
            doubles=selection.doubles,
            log=selection.log,
            tokens=request.tokens,
        )

    def _in_their_forms(self, question: str, values: Sequence[Any]) -> list[Any]:
        """Answers of what is asked of a filter: a list for a list. The archive gives lists for all
        where one entity asks for a list."""
        return [
            value[0]
            if isinstance(value, list) and not isinstance(entity[question], list)
            else value
            for entity, value in zip(self.request.entities, values, strict=True)
        ]


def _typed(value: object, kind: str, name: str, i: int) -> object:
    """A value as its column has it; a filter may be asked for null."""
    return None if value is None else value_of(value, kind, name, i)
