"""Answers of past instants come from the archive, by a process beside the prediction API.

Data sets that were built of a name come from there as well (docs/adr/0127).

The API asks on stdin and is answered on stdout: a line of JSON with the size of what follows, and a
table in Arrow's stream format, of entities there and of values here. The process shares nothing
with answers of the store but the machine, and ends by itself when nobody asks (docs/adr/0123).
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from slicewise import log
from slicewise.clock import SystemClock
from slicewise.errors import NotReady, SlicewiseError, StoreUnavailable, wire_of
from slicewise.extras import needed
from slicewise.features.plan.deployment import Deployment
from slicewise.lifecycle.registry.uses import Uses, packed_uses, uses_of
from slicewise.settings import Settings
from slicewise.stores.online.operations.deploying import ReadManifest
from slicewise.training.answering.spines import answer_spine, incomplete, reach
from slicewise.training.archiving.offline import IcebergArchive
from slicewise.training.requests.unit_requests import entity_types, questions_of, resolve
from slicewise.training.tables.spine import read_spine

IDLE_S = 600.0
"""The process ends when nobody has asked for so long."""
NICE = 10
"""By so much the process gives way to the API's own."""


@dataclass(frozen=True)
class PastAnswer:
    """Values of some entities at an instant.

    table: a column per ref, a row per entity. errors: ref -> row -> error code. incomplete: refs
    whose windows may lack events that are lost for good.
    """

    table: pa.Table
    errors: Mapping[str, Mapping[int, str]]
    incomplete: tuple[str, ...]


@dataclass
class Past:
    """The archive of a platform, and the deployments that were asked for."""

    settings: Settings
    _deployments: dict[str, Deployment] = field(default_factory=dict)

    def answer(
        self,
        digest: str,
        refs: Sequence[str],
        entities: pa.Table,
    ) -> PastAnswer:
        """The features of these entities at an instant, with the bounds of online answers.

        entities: their columns, what filters are asked for, and `at`. digest: of the deployment
        that the API serves. Raises NotReady where the store has lost it, BadRequest for an instant
        that is not archived, NothingArchived, StoreUnavailable.
        """
        from slicewise.stores.lake.catalog import open_catalog

        deployment = self._deployment(digest)
        clock, settings = SystemClock(), self.settings
        archive = IcebergArchive(open_catalog(settings), settings.kafka_bootstrap, clock)
        _, requested = resolve(deployment, list(refs))
        types, questions = entity_types(requested), questions_of(requested)
        spine = read_spine(entities, types, questions, "entities")
        reaches = reach(deployment, archive, requested, int(spine.at_us.max()))
        finished = answer_spine(
            deployment, archive, reaches, requested, spine, "event_time", mode="at"
        )
        lacking = incomplete(requested, reaches, spine.at_us, None)
        return PastAnswer(
            pa.table({ref: finished[ref].values for ref in refs}),
            {ref: dict(finished[ref].errors) for ref in refs if finished[ref].errors},
            tuple(ref for ref in refs if ref in lacking),
        )

    def uses_of(self, digest: str, name: str) -> Uses:
        """Data sets that were built of the definitions of a name. digest: of the deployment that
        the API serves. Raises NotReady where the store has lost it, StoreUnavailable."""
        from slicewise.stores.lake.catalog import open_catalog
        from slicewise.stores.lake.kept import recorded_sets

        sets = recorded_sets(open_catalog(self.settings))
        return uses_of(name, self._deployment(digest), sets)

    def _deployment(self, digest: str) -> Deployment:
        if digest in self._deployments:
            return self._deployments[digest]
        from slicewise.stores.online.redis.adapter import open_store

        with closing(open_store(self.settings.redis_url)) as store:
            text = store.run(ReadManifest(digest))
        if text is None:
            raise NotReady(
                "the deployment that is served is not in the store",
                progress=0.0,
                next_step="deploy the project: slicewise apply",
            )
        self._deployments = {digest: Deployment.from_json(text)}
        return self._deployments[digest]


def serve(past: Past, questions: BinaryIO, answers: BinaryIO) -> None:
    """Answers until nobody asks any more. Who asks waits for the answer before the next question:
    nothing of it stands in a buffer that `select` does not see."""
    while select.select([questions], [], [], IDLE_S)[0]:
        line = questions.readline()
        if not line:
            return
        question = json.loads(line)
        header, body = _answered(past, question, questions.read(question["size"]))
        answers.write(json.dumps(header | {"size": len(body)}).encode() + b"\n")
        answers.write(body)
        answers.flush()


def _answered(
    past: Past, question: Mapping[str, Any], given: bytes
) -> tuple[dict[str, Any], bytes]:
    try:
        if "uses_of" in question:
            return {}, packed_uses(past.uses_of(question["digest"], question["uses_of"]))
        entities = pa.ipc.open_stream(given).read_all()
        answer = past.answer(question["digest"], question["features"], entities)
    except SlicewiseError as error:
        return {"error": wire_of(error)}, b""
    except Exception as error:  # noqa: BLE001  # the next question may be answered all the same
        log.warning("past_not_answered", kind=type(error).__name__, error=str(error))
        unforeseen = StoreUnavailable(
            f"the archive could not be read: {type(error).__name__}",
            where="offline",
            next_step="see the API's log, which has the reason; then ask again",
        )
        return {"error": wire_of(unforeseen)}, b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, answer.table.schema) as stream:
        stream.write_table(answer.table)
    header = {
        "errors": {ref: {str(row): code for row, code in rows.items()}
                   for ref, rows in answer.errors.items()},
        "incomplete": list(answer.incomplete),
    }  # fmt: skip
    return header, sink.getvalue().to_pybytes()


@needed("training", "offline answers")
def main() -> None:
    """Serves the API that started it."""
    import slicewise.stores.lake.catalog  # noqa: F401  # said at once where it is not installed

    log.to_stderr()
    os.nice(NICE)
    # what else is printed goes where lines of the log go
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with answers, os.fdopen(os.dup(sys.stdin.fileno()), "rb") as questions:
        serve(Past(Settings.load()), questions, answers)


if __name__ == "__main__":
    main()
