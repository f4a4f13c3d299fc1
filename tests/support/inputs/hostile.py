"""The catalogue of hostile records: what stands on the wire, and the verdict that every reader of
it must come to.

Whatever reads records is held to it: the reader in the JVM, the oracle in Spark SQL, and the whole
way on real servers. A record is of `SCHEMA`, its Kafka time is `now_us`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MAX_LATENESS_US, MAX_AHEAD_US = 10_000_000, 5_000_000
MAX_VALUE_BYTES = 1 << 20
SCHEMA: Mapping[str, str] = {
    "user_id": "string",
    "n": "long",
    "x": "double",
    "y": "double",
    "ok": "boolean",
    "price": "decimal(6,2)",
    "at": "timestamp_us",
}
"""user_id is required, y takes NaN and infinities, at is the event's time."""
TIMESTAMP, REQUIRED, ALLOW_NAN = "at", ("user_id",), ("y",)


@dataclass(frozen=True)
class Record:
    """name: what is hostile about it. reason: why it is bad; None: it is good, and has these
    columns among others."""

    name: str
    value: bytes | None
    reason: str | None = None
    columns: Mapping[str, object] = field(default_factory=dict)


KEYS: Mapping[str, str] = {
    "a brace": "{",
    "braces as of a hash tag": "{ada}",
    "an empty hash tag": "{}",
    "a closing brace": "a}b",
    "the delimiter of tags": "ada,user_id:string:bob",
    "the delimiter of names and values": "user_id:string:ada",
    "a percent sign": "%7B",
    "what a percent sign and a brace become": "%257B",
    "the marks of another partition": "ada;p=3",
    "a glob of all": "*",
    "a glob of one": "ad?",
    "a glob of a set": "[a-z]da",
    "a backslash": "\\",
    "what looks like an escape": "\\ud800",
    "quotes": "\"'`",
    "a slash and dots": "../../etc/passwd",
    "NUL within": "a\x00b",
    "NUL alone": "\x00",
    "a line feed": "ada\n",
    "a carriage return and a line feed": "ada\r\nSET x 1\r\n",
    "a tab": "\tada",
    "a space before": " ada",
    "a space after": "ada ",
    "nothing": "",
    "composed": unicodedata.normalize("NFC", "gro\u0308\u00dfe"),
    "decomposed": unicodedata.normalize("NFD", "gr\u00f6\u00dfe"),
    "capitals": "ADA",
    "a byte order mark": "\ufeffada",
    "a joiner of no width": "a\u200dda",
    "letters from right to left": "\u202eada",
    "beyond the basic plane": "\U0001f600",
    "the last character": "\U0010ffff",
    "the text of null": "null",
    "the text of a number": "1e400",
    "two kilobytes": "k" * 2048,
    "plain": "ada",
}
"""Texts that some layer may take for something else, each of which is an entity of its own."""


def records(now_us: int) -> list[Record]:
    """All of them, good and bad, of the present instant."""
    return [*_good(now_us), *_keys(now_us), *_bad(now_us)]


def event(now_us: int, **changes: object) -> bytes:
    """A plain record with these members changed."""
    return json.dumps({"user_id": "ada", "at": now_us, **changes}).encode()


def raw(now_us: int, member: str) -> bytes:
    """A plain record with one more member, as it stands."""
    return b'{"user_id": "ada", "at": %d, %s}' % (now_us, member.encode())


def _keys(now: int) -> Iterator[Record]:
    for name, key in KEYS.items():
        yield Record(f"key: {name}", event(now, user_id=key, n=1), columns={"user_id": key, "n": 1})


def _good(now: int) -> Iterator[Record]:
    def good(name: str, value: bytes, **columns: object) -> Record:
        return Record(name, value, columns={"user_id": "ada", **columns})

    yield good("one of each", event(now, n=1, x=1.5, ok=True), n=1, x=1.5, ok=True)
    yield good("the greatest long", event(now, n=2**63 - 1), n=2**63 - 1)
    yield good("the least long", event(now, n=-(2**63)), n=-(2**63))
    yield good("an integer for a double", event(now, x=3), x=3.0)
    yield good("a tenth", raw(now, '"x": 0.1'), x=0.1)
    yield good("the least double", raw(now, '"x": 5e-324'), x=5e-324)
    yield good("less than the least double", raw(now, '"x": 1e-400'), x=0.0)
    yield good(
        "the greatest double", raw(now, '"x": 1.7976931348623157e308'), x=1.7976931348623157e308
    )
    yield good("seventeen digits", raw(now, '"x": 0.30000000000000004'), x=0.30000000000000004)
    yield good(
        "thirty digits",
        raw(now, '"x": 123456789012345678901234567890.5'),
        x=123456789012345678901234567890.5,
    )
    yield good("minus zero", raw(now, '"x": -0.0'), x=0.0)
    yield good("infinity where it is allowed", raw(now, '"y": "Infinity"'), y=float("inf"))
    yield good("nulls", event(now, n=None, x=None), n=None, x=None)
    yield good("a decimal", event(now, price=12.5))
    yield good("a pair of surrogates in a member of no column", raw(now, r'"z": "\ud83d\ude00"'))
    pair = b'{"user_id": "\\ud83d\\ude00", "at": %d}' % now
    yield Record("a pair of surrogates", pair, columns={"user_id": "\U0001f600"})
    escaped = b'{"user_id": "\\\\ud800", "at": %d}' % now
    yield Record(
        "an escaped backslash before what looks like a surrogate",
        escaped,
        columns={"user_id": "\\ud800"},
    )
    nul = b'{"user_id": "a\\u0000b", "at": %d}' % now
    yield Record("an escaped NUL", nul, columns={"user_id": "a\x00b"})
    yield good("lists and objects in a member of no column", raw(now, '"tags": [1, {"a": []}]'))
    yield good("nine hundred lists in one another", raw(now, '"z": ' + "[" * 900 + "]" * 900))
    yield good("white space around", b" \n" + event(now) + b"\r\n")
    yield good(
        "as late as it may be",
        event(now, at=now - MAX_LATENESS_US),
        event_time=now - MAX_LATENESS_US,
    )
    yield good(
        "as far ahead as it may be",
        event(now, at=now + MAX_AHEAD_US),
        event_time=now + MAX_AHEAD_US,
    )


def _bad(now: int) -> Iterator[Record]:
    plain = event(now)
    not_json: Mapping[str, bytes | None] = {
        "no value": None,
        "empty": b"",
        "white space": b" \r\n",
        "NUL": b"\x00",
        "null": b"null",
        "a number": b"7",
        "a text": b'"ada"',
        "not JSON": b"user_id=ada",
        "an array": b"[1]",
        "an array around a record": b"[" + plain + b"]",
        "something after": plain + b" x",
        "NUL after": plain + b"\x00",
        "two records": plain + plain,
        "two records and a line feed": plain + b"\n" + plain,
        "two records and a comma": plain + b", " + plain,
        "brackets after": plain + b"] }",
        "a brace after": plain + b"} x",
        "cut": plain[:-1],
        "a byte order mark before": b"\xef\xbb\xbf" + plain,
        "UTF-16": plain.decode().encode("utf-16"),
        "invalid UTF-8": b'{"user_id": "\xff", "at": %d}' % now,
        "a surrogate in UTF-8": b'{"user_id": "\xed\xa0\x80", "at": %d}' % now,
        "an overlong NUL": b'{"user_id": "\xc0\x80", "at": %d}' % now,
        "a bare NUL in a text": b'{"user_id": "a\x00b", "at": %d}' % now,
        "a bare carriage return and line feed in a text": b'{"user_id": "a\r\nb", "at": %d}' % now,
        "a column twice": b'{"user_id": "ada", "user_id": "bob", "at": %d}' % now,
        "a column twice, once escaped": b'{"user_id": "ada", "\\u0075ser_id": "bob", "at": %d}'
        % now,
        "a member of no column twice": raw(now, '"z": {"a": 1, "a": 2}'),
        "NaN": raw(now, '"y": NaN'),
        "Infinity": raw(now, '"y": Infinity'),
        "a leading zero": raw(now, '"x": 01'),
        "a plus sign": raw(now, '"x": +1'),
        "a comma at the end": raw(now, '"x": 1,'),
        "single quotes": b"{'user_id': 'ada', 'at': %d}" % now,
        "a comment": b"/* */" + plain,
        "twelve hundred lists in one another": raw(now, '"z": ' + "[" * 1200 + "]" * 1200),
        "a hundred thousand objects in one another": raw(
            now, '"z": ' + '{"a":' * 100_000 + "1" + "}" * 100_000
        ),
    }
    for name, value in not_json.items():
        yield Record(name, value, "not_json")
    yield Record("a megabyte of white space", plain + b" " * MAX_VALUE_BYTES, "too_large")
    yield Record("ten megabytes", event(now, z="x" * (10 << 20)), "too_large")
    texts = {
        "high": "\\ud800",
        "low": "\\udc00",
        "in the wrong order": "\\udc00\\ud800",
        "after a good pair": "\\ud83d\\ude00\\ud83d",
    }
    for name, text in texts.items():
        yield Record(
            f"a lone surrogate, {name}",
            b'{"user_id": "%s", "at": %d}' % (text.encode(), now),
            "bad_text",
        )
    others: Mapping[str, tuple[bytes, str]] = {
        "null for a required column": (event(now, user_id=None), "missing_required:user_id"),
        "no required column": (b'{"at": %d}' % now, "missing_required:user_id"),
        "another case of a column": (
            b'{"USER_ID": "ada", "at": %d}' % now,
            "missing_required:user_id",
        ),
        "no time": (b'{"user_id": "ada"}', "missing_required:at"),
        "an empty object": (b"{}", "missing_required:user_id"),
        "a number for a text": (event(now, user_id=7), "wrong_type:user_id"),
        "an object for a text": (event(now, user_id={"a": 1}), "wrong_type:user_id"),
        "a list for a text": (event(now, user_id=["ada"]), "wrong_type:user_id"),
        "a part for an integer": (raw(now, '"n": 1.9'), "wrong_type:n"),
        "a double for an integer": (raw(now, '"n": 1.0'), "wrong_type:n"),
        "an exponent for an integer": (raw(now, '"n": 1e3'), "wrong_type:n"),
        "a text for an integer": (event(now, n="1"), "wrong_type:n"),
        "a boolean for an integer": (event(now, n=True), "wrong_type:n"),
        "2^63": (event(now, n=2**63), "out_of_range:n"),
        "-2^63 - 1": (event(now, n=-(2**63) - 1), "out_of_range:n"),
        "fifty digits": (event(now, n=10**50), "out_of_range:n"),
        "a text for a double": (event(now, x="1.5"), "wrong_type:x"),
        "1e400": (raw(now, '"x": 1e400'), "out_of_range:x"),
        "-1e400": (raw(now, '"x": -1e400'), "out_of_range:x"),
        'the text "NaN"': (event(now, x="NaN"), "out_of_range:x"),
        'the text "nan"': (event(now, x="nan"), "wrong_type:x"),
        "1e400 where infinity is allowed": (raw(now, '"y": 1e400'), "out_of_range:y"),
        "a number for a boolean": (event(now, ok=1), "wrong_type:ok"),
        "more digits than a decimal has": (raw(now, '"price": 1.005'), "out_of_range:price"),
        "a decimal too great": (event(now, price=100_000), "out_of_range:price"),
        "a text for a decimal": (event(now, price="1.5"), "wrong_type:price"),
        "a text for a time": (event(now, at="2023-11-14T22:13:20Z"), "wrong_type:at"),
        "a negative time": (event(now, at=-1), "bad_time:at"),
        "time zero": (event(now, at=0), "too_late"),
        "seconds for microseconds": (event(now, at=now // 1_000_000), "too_late"),
        "milliseconds for microseconds": (event(now, at=now // 1_000), "too_late"),
        "nanoseconds for microseconds": (event(now, at=now * 1_000), "bad_time:at"),
        "the last microsecond of 9999": (event(now, at=253_402_300_799_999_999), "too_far_ahead"),
        "the year 10000": (event(now, at=253_402_300_800_000_000), "bad_time:at"),
        "the last microsecond of all": (event(now, at=2**63 - 1), "bad_time:at"),
        "a year ahead": (event(now, at=now + 365 * 86_400_000_000), "too_far_ahead"),
        "a microsecond too late": (event(now, at=now - MAX_LATENESS_US - 1), "too_late"),
        "a microsecond too far ahead": (event(now, at=now + MAX_AHEAD_US + 1), "too_far_ahead"),
    }
    for name, (value, reason) in others.items():
        yield Record(name, value, reason)
