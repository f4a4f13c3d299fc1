"""A schema takes the place of another under its source's name, from a recorded offset of the log on
(docs/adr/0057)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slicewise.errors import DeploymentSuperseded
from slicewise.features.plan.fingerprint import canonical_json
from slicewise.features.plan.unit import SchemaVersion, Source, offsets_to_json
from slicewise.features.schema.types import decimal_parts
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import format_span


def schema_changes(now: Source, then: Source) -> tuple[str, ...]:
    """Differences that make `now` read records otherwise, for people; nothing where both read
    alike."""
    new, old = _declared(now), _declared(then)
    changes = [f"column {name!r} ({new[name]}) is added" for name in new if name not in old]
    changes += [f"column {name!r} is removed" for name in old if name not in new]
    both = [name for name in new if name in old]
    changes += [
        f"column {name!r} is {new[name]}, was {old[name]}"
        for name in both
        if new[name] != old[name]
    ]
    for option in ("topic", "format", "timestamp", "time_form"):
        if getattr(now, option) != getattr(then, option):
            changes.append(f"{option} is {getattr(now, option)}, was {getattr(then, option)}")
    for option, after, before in (
        ("max_lateness", now.max_lateness_us, then.max_lateness_us),
        ("max_ahead", now.max_ahead_us, then.max_ahead_us),
    ):
        if after != before:
            changes.append(f"{option} is {format_span(after)}, was {format_span(before)}")
    for option, words in (("required", "must be there"), ("allow_nan", "may be NaN or infinite")):
        for name in sorted({*getattr(now, option)} ^ {*getattr(then, option)}):
            if name in both:
                changes.append(
                    f"column {name!r} "
                    f"{words if name in getattr(now, option) else 'no longer ' + words}"
                )
    paths = dict(now.paths), dict(then.paths)
    moved = [name for name in both if paths[0].get(name) != paths[1].get(name)]
    return (*changes, *(f"column {name!r} stands elsewhere in a record" for name in moved))


@dataclass(frozen=True)
class Took:
    """A schema that took the place of another. until: the first offsets that are judged by it;
    None: not recorded."""

    changes: tuple[str, ...]
    until: OffsetVector | None

    @property
    def text(self) -> str:
        """For people."""
        what = "; ".join(self.changes) or "other names within its records"
        if self.until is None:
            return f"{what}; from where the log ends when it is applied"
        offsets = ", ".join(
            f"{offset} of partition {partition}"
            for (_, partition), offset in self.until.offsets.items()
        )
        return f"{what}; from offset {offsets or '0'} on"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"changes": list(self.changes), "from": offsets_to_json(self.until)}


def schema_history(source: Source) -> tuple[Took, ...]:
    """The schemas of the source that took the place of another, oldest first."""
    schemas = [*(version.source for version in source.earlier), source]
    return tuple(
        Took(schema_changes(schemas[i + 1], version.source), version.until)
        for i, version in enumerate(source.earlier)
    )


def refusals(now: Source, then: Source) -> tuple[str, ...]:
    """Tells why `now` cannot take the place of `then` under its name; nothing where it can.

    What is archived of a column keeps its type for ever, but for a decimal of more digits; that
    holds of columns that an earlier schema had, too. A column that is declared wider on the wire
    (int, long) has values of one type, and is none of them (docs/adr/0039).
    """
    reasons = [
        f"{option} of source {now.name!r} is {getattr(now, option)}, was {getattr(then, option)}"
        for option in ("topic", "format", "timestamp", "time_form")
        if getattr(now, option) != getattr(then, option)
    ]
    archived: dict[str, str] = {}
    for source in (*(version.source for version in then.earlier), then):
        archived |= dict(source.columns)
    reasons += [
        (
            f"column {name!r} of source {now.name!r} is {kind}, and what is archived of it is "
            f"{archived[name]}"
        )
        for name, kind in now.columns
        if name in archived and not _is_kept(kind, archived[name])
    ]
    gone = set(dict(then.columns)) - set(dict(now.columns))
    reasons += [
        f"column {name!r} of source {now.name!r} is removed, and required"
        for name in then.required
        if name in gone
    ]
    return tuple(reasons)


def reread(now: Source, then: Source) -> frozenset[str]:
    """Columns whose values are other ones than they were, for whoever reads them: removed, wider,
    or elsewhere in a record. A view that reads one of them is another unit."""
    before, after = _read_as(then), _read_as(now)
    return frozenset(name for name, how in before.items() if after.get(name) != how)


def succeeded(now: Source, then: Source) -> Source:
    """`now`, deployed where `then` is: with the schemas that held before it. Where its own is
    another one than that of `then`, it holds from offsets that are not recorded yet."""
    earlier = then.earlier
    if now.schema_fingerprint != then.schema_fingerprint:
        earlier = (*earlier, SchemaVersion(replace(then, owner=None, dedupe=None, earlier=())))
    # a registry that moved is asked there for what it was asked before
    moved = (
        replace(version, source=replace(version.source, registry=now.registry))
        for version in earlier
    )
    return replace(now, earlier=tuple(moved))


def with_until(source: Source, until: OffsetVector) -> Source:
    """The source whose schema holds from there on."""
    *before, last = source.earlier
    return replace(source, earlier=(*before, replace(last, until=until)))


def removed_columns(source: Source) -> tuple[tuple[str, str], ...]:
    """Columns of earlier schemas that the source's own has not, with their last types. They come in
    the order in which they came: records below an offset have values of them, which the archive
    keeps."""
    own = dict(source.columns)
    removed: dict[str, str] = {}
    for version in source.earlier:
        removed |= {name: kind for name, kind in version.source.columns if name not in own}
    return tuple(removed.items())


def history_text(source: Source) -> str:
    """By which schemas and offsets records are judged, as an archive keeps it beside what it
    judged; "[]": by one."""
    return canonical_json(
        [
            [version.source.schema_fingerprint, offsets_to_json(version.until)]
            for version in source.earlier
        ]
    )


def is_later(source: Source, text: str) -> bool:
    """Tells whether the history of this text is the beginning of the source's, so that what it
    judged goes on."""
    then, now = json.loads(text), json.loads(history_text(source))
    return bool(now[: len(then)] == then)


def judged_by(source: Source, topic_id: str) -> tuple[tuple[Source, Mapping[int, int]], ...]:
    """The schemas that judge the records of a topic, oldest first. Each has the first offset per
    partition that it does not judge; the source's own is last, and judges the rest. The offsets of
    another topic of that name say nothing of this one. DeploymentSuperseded while the last offsets
    are not recorded."""
    versions: list[tuple[Source, Mapping[int, int]]] = []
    for version in source.earlier:
        if version.until is None:
            raise DeploymentSuperseded(
                f"the schema of source {source.name!r} has no recorded offsets yet",
                next_step="the stream's driver records it within seconds, and so does slicewise apply",
            )
        ends = {
            partition: offset
            for (topic, partition), offset in version.until.offsets.items()
            if topic == topic_id
        }
        versions.append((version.source, ends))
    return (*versions, (source, {}))


def _is_kept(kind: str, archived: str) -> bool:
    """Tells whether a column of an archive may be of this type from now on."""
    after, before = decimal_parts(kind), decimal_parts(archived)
    if after is None or before is None:
        return kind == archived
    return after[1] == before[1] and after[0] >= before[0]


def _read_as(source: Source) -> dict[str, tuple[str, tuple[str, ...] | None]]:
    """Column -> all of its declaration that bears on values: `build.storage_payload` has the
    same."""
    floats = {name: kind for name, kind in source.wire if "float" in kind}
    paths = dict(source.paths)
    return {name: (floats.get(name, kind), paths.get(name)) for name, kind in source.columns}


def _declared(source: Source) -> dict[str, str]:
    """Column -> its type as records hold it."""
    return dict(source.columns) | dict(source.wire)
