"""What a source's schema changes by another version of it, and which changes its archive cannot take."""

from __future__ import annotations

from slicewise.features.unit import Source
from slicewise.slices import format_span


def schema_changes(now: Source, then: Source) -> tuple[str, ...]:
    """What makes `now` read records otherwise, for people; nothing where both read alike."""
    new, old = _declared(now), _declared(then)
    found = [f"column {name!r} ({new[name]}) is added" for name in new if name not in old]
    found += [f"column {name!r} is removed" for name in old if name not in new]
    both = [name for name in new if name in old]
    found += [f"column {name!r} is {new[name]}, was {old[name]}" for name in both if new[name] != old[name]]
    for option in ("topic", "format", "timestamp", "time_form"):
        if getattr(now, option) != getattr(then, option):
            found.append(f"{option} is {getattr(now, option)}, was {getattr(then, option)}")
    for option, after, before in (
        ("max_lateness", now.max_lateness_us, then.max_lateness_us),
        ("max_ahead", now.max_ahead_us, then.max_ahead_us),
    ):
        if after != before:
            found.append(f"{option} is {format_span(after)}, was {format_span(before)}")
    for option, words in (("required", "must be there"), ("allow_nan", "may be NaN or infinite")):
        for name in sorted({*getattr(now, option)} ^ {*getattr(then, option)}):
            if name in both:
                found.append(f"column {name!r} {words if name in getattr(now, option) else 'no longer ' + words}")
    places = dict(now.paths), dict(then.paths)
    moved = [name for name in both if places[0].get(name) != places[1].get(name)]
    return (*found, *(f"column {name!r} stands elsewhere in a record" for name in moved))


def unkept(now: Source, then: Source) -> tuple[str, ...]:
    """Changed columns that the archive cannot go on with, and why: what it holds keeps its type for ever. A column
    that is declared wider on the wire (int, long) has values of one type, and is none of them (docs/adr/0039)."""
    old = dict(then.columns)
    return tuple(
        f"column {name!r} of source {now.name!r} is {kind}, and what is archived of it is {old[name]}"
        for name, kind in now.columns
        if name in old and kind != old[name]
    )


def _declared(source: Source) -> dict[str, str]:
    """Column -> its type as records hold it."""
    return dict(source.columns) | dict(source.wire)
