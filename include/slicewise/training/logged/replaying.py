"""Logged answers are answered again from the archive, by their tokens, and compared as bytes.

An answer that the archive gives otherwise is a number that a model saw and that no training set
would give: none is expected.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest, UnknownName
from slicewise.features.plan.deployment import Deployment, base_of
from slicewise.features.plan.unit import Source
from slicewise.offsets.token import decode_all
from slicewise.settings import Settings
from slicewise.training.api import training_set
from slicewise.training.archive import Archive
from slicewise.training.archiving.offline import Offline
from slicewise.training.logged.columns import (
    answer_texts,
    entity_columns,
    has_lists,
    is_entity,
)
from slicewise.training.requests.unit_requests import entity_types, questions_of, resolve
from slicewise.training.tables.instants import text_of

Notify = Callable[[str], None]
READ = (
    "request_id",
    "logged_at",
    "feature_set",
    "deployment",
    "answered_at",
    "entity",
    "answer",
    "token",
    "flags",
)
"""Columns of the log that are read."""
NOT_ANSWERED = ("stale", "default", "offline")
"""Flags of answers that the store did not give."""
NO_EVENT = "no event of the API"
"""Reason of what somebody else wrote into the topic."""
EXAMPLES = 20
_ORDER = ("event_time", "partition", "offset")
"""Columns by which the newest answer is the last."""
_FIRST_US = 3_600_000_000
"""Time of the log that is read first where the newest answers are wanted."""


@dataclass(frozen=True)
class Difference:
    """An answer that the archive gives otherwise. logged, again: the JSON of its values."""

    request_id: str
    logged_us: int
    feature_set: str
    entity: str
    logged: str
    again: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "request_id": self.request_id,
            "logged_at": text_of(self.logged_us),
            "feature_set": self.feature_set,
            "entity": self.entity,
            "logged": self.logged,
            "again": self.again,
        }


@dataclass
class Replayed:
    """Counts of one replay. left_out: reason -> answers that have nothing to be compared with;
    differing: the first of those that differ."""

    source: str
    until_us: int
    answers: int = 0
    equal: int = 0
    different: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    differing: list[Difference] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "source": self.source,
            "archived_until": text_of(self.until_us),
            "answers": self.answers,
            "equal": self.equal,
            "different": self.different,
            "left_out": {reason: rows for reason, rows in self.left_out.items() if rows},
            "differing": [one.to_json() for one in self.differing],
        }


def replay_requests(
    settings: Settings,
    *,
    source: str | None = None,
    start_us: int = 0,
    end_us: int | None = None,
    feature_set: str | None = None,
    limit: int | None = None,
    archive: bool = True,
    notify: Notify,
) -> Replayed:
    """Answers logged in [start_us, end_us) once more, the newest `limit` of them.

    source: of the log; None where there is one alone. archive: where tokens ask for more than is
    archived, the log is archived first. Raises UnknownName, BadRequest, NothingArchived, and what
    building a training set raises.
    """
    offline = Offline.open(settings)
    log = log_of(offline.deployment, source)
    reaches = offline.archive.reaches(log.name)
    until_us = reaches.until_us if end_us is None else end_us
    logged = newest_answers(offline.archive, log, start_us, until_us, feature_set, limit)
    current, stood = offline.deployment, cache(lambda: definitions_that_stood(settings))
    replayed = Replayed(log.name, reaches.until_us, logged.num_rows)
    notify(f"{logged.num_rows:,} logged answers of {log.name}")
    for (digest, name), rows in _grouped(logged).items():
        some = _compared(replayed, logged.take(rows))
        if not some.num_rows:
            continue
        deployment = current if digest == current.digest else stood().get(digest)
        if deployment is None:
            replayed.left_out["its definitions are lost"] += some.num_rows
            continue
        some = _answerable(replayed, deployment, name, some)
        if not some.num_rows:
            continue
        notify(f"answering {some.num_rows:,} of {name} again")
        again = _answered_again(settings, deployment, name, some, archive=archive, notify=notify)
        _compare(replayed, some, again)
    return replayed


def newest_answers(
    archive: Archive,
    log: Source,
    start_us: int,
    end_us: int,
    feature_set: str | None,
    limit: int | None,
) -> pa.Table:
    """Answers of a feature set logged in [start_us, end_us), the newest `limit` of them, the newest
    last.

    With a limit the log is read backwards, by twice the time at once, until so many are there.
    Raises UnknownName where none is of the set.
    """
    version = archive.reaches(log.name).archive_version
    read: list[pa.Table] = []
    until_us, step_us = end_us, end_us - start_us if limit is None else _FIRST_US
    while True:
        from_us = max(start_us, until_us - step_us)
        events = archive.events(log, READ, from_us, until_us, version)
        read.insert(0, events.select([*READ, *_ORDER]))
        rows = sum(_rows_of(some, feature_set) for some in read)
        if from_us <= start_us or (limit is not None and rows >= limit):
            break
        until_us, step_us = from_us, 2 * step_us
    logged = pa.concat_tables(read)
    if feature_set is not None:
        logged = of_set(logged, feature_set, "--set")
    # one order whatever the files
    logged = logged.sort_by([(name, "ascending") for name in _ORDER])
    return logged if limit is None else logged.slice(max(0, logged.num_rows - limit))


def _rows_of(logged: pa.Table, feature_set: str | None) -> int:
    if feature_set is None:
        return int(logged.num_rows)
    return sum(feature_set in (name, base_of(name)) for name in logged["feature_set"].to_pylist())


def log_of(deployment: Deployment, name: str | None) -> Source:
    """The source of the request log. Raises UnknownName, BadRequest."""
    logs = {s.name: s for s in deployment.sources if s.log_kind == "answers"}
    if name is not None and name in logs:
        return logs[name]
    if name is None and len(logs) == 1:
        return next(iter(logs.values()))
    if not logs:
        raise UnknownName(
            "no answers are logged",
            where="log",
            expected="a source made by sw.request_log, and a feature set with log=",
            next_step="declare them, and deploy: slicewise apply",
        )
    raise BadRequest(
        f"{name!r} is no request log" if name is not None else f"{len(logs)} request logs",
        where="--log",
        expected="one of " + ", ".join(sorted(logs)),
        next_step="name one",
    )


def of_set(logged: pa.Table, feature_set: str, where: str) -> pa.Table:
    """The answers of a feature set, of all its versions where none is named. Raises UnknownName."""
    names = pc.unique(logged["feature_set"]).to_pylist()
    wanted = [name for name in names if feature_set in (name, base_of(name))]
    if not wanted:
        raise UnknownName(
            f"no answer of feature set {feature_set!r} was logged in this time",
            where=where,
            expected=", ".join(sorted(names)) or "answers; none was logged in it",
            next_step="name another, or another time",
        )
    return logged.filter(pc.is_in(logged["feature_set"], pa.array(wanted)))


def _grouped(logged: pa.Table) -> dict[tuple[str, str], np.ndarray[Any, np.dtype[np.int64]]]:
    """(deployment, feature set) -> rows."""
    by: dict[tuple[str, str], list[int]] = {}
    pairs = zip(logged["deployment"].to_pylist(), logged["feature_set"].to_pylist(), strict=True)
    for row, pair in enumerate(pairs):
        by.setdefault(pair, []).append(row)
    return {pair: np.array(rows, np.int64) for pair, rows in by.items()}


def _compared(replayed: Replayed, logged: pa.Table) -> pa.Table:
    """Answers that the archive can give again; the others are counted."""
    kept = []
    texts = zip(*(logged[name].to_pylist() for name in ("flags", "token", "entity")), strict=True)
    for row, (flags, token, entity) in enumerate(texts):
        flag = next((one for one in (flags or "").split(",") if one in NOT_ANSWERED), None)
        if flag is not None:
            replayed.left_out[f"flag {flag}"] += 1
        elif not token:
            replayed.left_out["without a token"] += 1
        elif not _is_token(token) or not is_entity(entity):
            replayed.left_out[NO_EVENT] += 1
        elif has_lists(entity):
            replayed.left_out["several questions at once"] += 1
        else:
            kept.append(row)
    return logged.take(pa.array(kept, pa.int64()))


def _is_token(text: str) -> bool:
    try:
        decode_all(text)
    except BadRequest:
        return False
    return True


def _answerable(
    replayed: Replayed, deployment: Deployment, name: str, logged: pa.Table
) -> pa.Table:
    """Answers of a set that its deployment has, and whose entities have its columns; the others are
    counted."""
    try:
        _, requested = resolve(deployment, list(deployment.feature_set(name).features))
    except UnknownName:
        replayed.left_out[NO_EVENT] += logged.num_rows
        return logged.slice(0, 0)
    columns = {*entity_types(requested), *questions_of(requested)}
    kept = [columns <= json.loads(text).keys() for text in logged["entity"].to_pylist()]
    replayed.left_out[NO_EVENT] += len(kept) - sum(kept)
    return logged.filter(pa.array(kept, pa.bool_()))


def definitions_that_stood(settings: Settings) -> dict[str, Deployment]:
    """Digest -> deployment, of all that stood and that somebody still has."""
    from slicewise.stores.lake.stood import read_registry
    from slicewise.stores.online.redis.adapter import open_store

    with closing(open_store(settings.redis_url)) as store:
        registry = read_registry(settings, store)
    return {one.deployment.digest: one.deployment for one in registry.stood}


def _answered_again(
    settings: Settings,
    deployment: Deployment,
    name: str,
    logged: pa.Table,
    *,
    archive: bool,
    notify: Notify,
) -> list[str]:
    chosen = deployment.feature_set(name)
    _, requested = resolve(deployment, list(chosen.features))
    types: Mapping[str, str] = {**entity_types(requested), **questions_of(requested)}
    columns = entity_columns(logged["entity"].to_pylist(), types)
    spine = pa.table({**columns, "at": logged["answered_at"], "token": logged["token"]})
    refs = list(chosen.features)
    built = training_set(
        spine,
        refs,
        "token",
        deployment=deployment,
        settings=settings,
        archive=archive,
        progress=notify,
    )
    return answer_texts(built.to_arrow(), refs, dict(chosen.defaults))


def _compare(replayed: Replayed, logged: pa.Table, again: Sequence[str]) -> None:
    for row, (before, now) in enumerate(zip(logged["answer"].to_pylist(), again, strict=True)):
        if before == now:
            replayed.equal += 1
            continue
        replayed.different += 1
        if len(replayed.differing) < EXAMPLES:
            one = {name: logged[name][row].as_py() for name in READ if name != "logged_at"}
            logged_us = logged["logged_at"][row].cast(pa.int64()).as_py()
            replayed.differing.append(
                Difference(
                    one["request_id"], logged_us, one["feature_set"], one["entity"], before, now
                )
            )
