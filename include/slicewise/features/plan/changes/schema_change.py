"""A schema takes the place of another under its source's name, from a recorded offset of the log on
(docs/adr/0057)."""

from __future__ import annotations

from dataclasses import replace

from slicewise.features.plan.unit import SchemaVersion, Source
from slicewise.features.schema.types import decimal_parts, instant_text
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
    if now.history_until_us != then.history_until_us:
        until = now.history_until_us
        changes.append(
            "no event comes from a table"
            if until is None
            else f"events before {instant_text(until)} come from a table"
        )
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
