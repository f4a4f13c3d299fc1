"""Two versions of a view are answered from one archive, at one instant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from slicewise.errors import BadRequest
from slicewise.settings import Settings
from slicewise.training.archiving.offline import Offline
from slicewise.training.dataset import build_snapshot
from slicewise.training.tables.instants import instant_us
from slicewise.training.versions.difference import Difference, compared_refs, difference
from slicewise.windows.durations import HOUR_US


def compare(
    settings: Settings,
    then: str,
    now: str,
    at: datetime | str | int | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Difference:
    """Answers of two versions of a view, compared over all entities with events in a window.

    at: the instant, aware; None: the end of the last hour that is archived whole. Raises
    UnknownName, BadRequest, StoreUnavailable, NotReady, NothingArchived.
    """
    offline = Offline.open(settings)
    deployment = offline.deployment
    columns, others = compared_refs(deployment, then, now)
    if not columns:
        raise BadRequest(
            f"{then} and {now} have no feature of one name and type",
            where="diff",
            expected="versions that share a feature",
            next_step="compare them by training sets of their own: sw.snapshot",
        )
    units = (*deployment.view(then), *deployment.view(now))
    until_us = min(
        offline.archive.reaches(source).until_us for source in {unit.source for unit in units}
    )
    at_us = until_us // HOUR_US * HOUR_US if at is None else instant_us(at, "at")
    notify(f"{len(columns)} features of {then} and {now}, from the archive")
    refs = [f"{of}:{column}" for of in (then, now) for column in columns]
    table = build_snapshot(deployment, offline.archive, refs, [at_us]).table
    keys = [name for name, _ in units[0].entity]
    return Difference(
        then,
        now,
        at_us,
        table.num_rows,
        tuple(difference(table, keys, then, now, column) for column in columns),
        others["gone"],
        others["added"],
        others["retyped"],
    )
