"""A name is good everywhere that it will stand, and an error says where its definition was
written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from slicewise.calls import shown
from slicewise.errors import DefinitionError, Location, written_at

__all__ = [
    "OF_QUESTIONS",
    "RESERVED",
    "Location",
    "at_version",
    "base_of",
    "check_described",
    "check_mapping",
    "check_name",
    "check_owner",
    "check_truth",
    "check_words",
    "frozen",
    "placed",
    "refuse_cases",
    "refuse_reserved",
    "refuse_twice",
    "subject_of",
    "tags_of",
    "texts",
    "version_of",
    "written_at",
]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_AT = "@"
"""Before the number in a version's name: no definition's own name has it."""
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,62}")
LONGEST_DESCRIPTION = 4_000
# columns of log.<source> and slices.<unit> that are the platform's own
_LOG_COLUMNS = {
    "archive_seq",
    "kind",
    "topic_id",
    "partition",
    "offset",
    "kafka_time",
    "archive_time",
}
_EVENT_COLUMNS = {"event_time", "hour", "slice", "reason", "raw", "events", "cover", "seq", "at"}
# columns of a question beside its entity's
OF_QUESTIONS = frozenset({"mode", "token"})
RESERVED = frozenset(_LOG_COLUMNS | _EVENT_COLUMNS)


def subject_of(what: str, name: str, location: Location | None) -> str:
    """A definition and where it was written, for messages."""
    return f"{what} {name!r}" + (f" ({location})" if location else "")


def check_name(name: object, what: str, where: str) -> None:
    """Refuse what is no name: names become columns, keys and file names."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{shown(name)} is no name of {what}",
            where=where,
            expected="a letter, then letters, digits and _, at most 63",
            next_step="rename it",
        )


def at_version(name: str, number: int) -> str:
    """A version's own name, as "by_card@2"."""
    return f"{name}{_AT}{number}"


def base_of(name: str) -> str:
    """The name of which this is a version; itself where it is none."""
    return name.partition(_AT)[0]


def version_of(name: str) -> int | None:
    """Number of a version's own name; None of a name that stands for whichever is live."""
    number = name.partition(_AT)[2]
    return int(number) if _NUMBER.fullmatch(number) else None


def check_owner(owner: object, where: str) -> None:
    """Refuse what names nobody."""
    if owner is not None and (not isinstance(owner, str) or not owner.strip()):
        raise DefinitionError(
            f"owner is {shown(owner)}",
            where=where,
            expected='a text, as owner="team-music", or none',
            next_step="name one",
        )


def check_described(description: object, where: str) -> None:
    """Refuse what describes nothing, or is a book: it stands on one page with others."""
    if description is None:
        return
    if not isinstance(description, str) or not description.strip():
        raise DefinitionError(
            f"description is {shown(description)}",
            where=where,
            expected='a text, as description="payments of a card", or none',
            next_step="write what it means, or leave description= out",
        )
    wrong = [one for one in description if not one.isprintable() and one not in "\n\t"]
    if wrong:
        raise DefinitionError(
            f"the description has the character {wrong[0]!r}",
            where=where,
            expected="characters that can be shown, line ends and tabs",
            next_step="leave it out",
        )
    if len(description) > LONGEST_DESCRIPTION:
        raise DefinitionError(
            f"the description has {len(description)} characters",
            where=where,
            expected=f"at most {LONGEST_DESCRIPTION}",
            next_step="shorten it, or put an address of the whole text in it",
        )


def tags_of(value: Sequence[str], where: str) -> tuple[str, ...]:
    """The tags as a tuple, sorted: their order means nothing. Raises DefinitionError."""
    tags = texts(value, "tags", where)
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise DefinitionError(
                f"{shown(tag)} is no tag",
                where=where,
                expected="a letter or digit, then letters, digits and _ . : / -, at most 63",
                next_step="rename it",
            )
    refuse_twice(tags, "tag", where)
    return tuple(sorted(tags))


def check_words(declared: Any, where: str) -> None:
    """Refuse an owner, a description or tags of a frozen definition that say nothing; its tags are
    sorted then."""
    check_owner(declared.owner, where)
    check_described(declared.description, where)
    object.__setattr__(declared, "tags", tags_of(declared.tags, where))


def check_truth(value: object, what: str, where: str | None) -> None:
    """Refuse what is neither True nor False: "no" is true to Python."""
    if not isinstance(value, bool):
        raise DefinitionError(
            f"{what} is {shown(value)}",
            where=where,
            expected=f"{what}=True or {what}=False",
            next_step="write it so",
        )


def frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """A copy that nobody changes."""
    return MappingProxyType(dict(mapping))


def check_mapping(value: object, what: str, where: str, example: str) -> None:
    """Refuse what is no mapping of names."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise DefinitionError(
            f"{what} is {shown(value)}",
            where=where,
            expected=f"a dict of names: {what}={example}",
            next_step=f"write {what}={example}",
        )


def texts(value: Sequence[str], what: str, where: str) -> tuple[str, ...]:
    """A list of texts as a tuple; a text alone is refused, since it is a list of letters to Python,
    and so is what has no order, or is used up when it is read."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not all(isinstance(v, str) for v in value)
    ):
        raise DefinitionError(
            f"{what} is {shown(value)}",
            where=where,
            expected=f"a list of texts: {what}=[…]",
            next_step=f"put it in [ ]: {what}=[{value!r}]"
            if isinstance(value, str)
            else f"write {what}=[…] with each in quotes",
        )
    return tuple(value)


def refuse_twice(names: Sequence[str], what: str, where: str) -> None:
    """Refuse a name that stands twice, or in two ways of capitals and small letters."""
    refuse_cases(names, what, where)
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(
                f"{what} {name!r} stands twice",
                where=where,
                expected="each name once",
                next_step="rename or remove one",
            )


def refuse_cases(names: Iterable[str], what: str, where: str) -> None:
    """Refuse names that SQL cannot tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise DefinitionError(
                f"{what}s {other!r} and {name!r} differ in case only",
                where=where,
                expected="names that differ in more, since SQL does not see case",
                next_step="rename one",
            )


def refuse_reserved(column: str, where: str) -> None:
    """Refuse the name of a column that the platform's tables have themselves."""
    if column.lower() in RESERVED:
        raise DefinitionError(
            f"{column!r} is a column that the platform adds itself",
            where=where,
            expected="any name but " + ", ".join(sorted(RESERVED)),
            next_step="rename it in the producer, or leave it out of the schema",
        )


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Gives this place to a DefinitionError from inside."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(
            error.what, where=where, expected=error.expected, next_step=error.next_step
        ) from error
