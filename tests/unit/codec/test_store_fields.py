"""The table states every key and field of the store once; code, scripts, page and JVM follow it."""

from __future__ import annotations

import ast
import json
import re
from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from slicewise import codec
from slicewise.codec.store_fields import FIELDS, KEYS, Field, Where, fields_of
from slicewise.codec.store_fields import fields as f
from slicewise.codec.store_fields import keys as k
from slicewise.codec.store_fields import metadata as m
from slicewise.offsets.vector import OffsetVector
from tests.support.pages import page_script

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "include" / "slicewise"
GOLDEN = json.loads((ROOT / "tests/unit/golden/keys.json").read_text())
TOPIC = "0123456789abcdef0123456789abcdef"
FILLED: dict[str, str | int] = {
    "store id": 17, "tag": "user_id:string:42", "unit": "00000000000000aa", "yyyymmdd": "20130101", "source": "plays",
    "name": "top_songs", "window end": 1_357_000_010_000_000, "instant": 1_357_000_010_000_000, "digest": "abc", "part": "a:b", "topic": TOPIC,
    "partition": 2, "slice": 2_261_232, "number": 17, "hour": 376_872, "version": 3, "view": "a:b", "topic name": "a:b",
}  # fmt: skip
VALUES: dict[Field, tuple[object, ...]] = {
    f.APPLIED: (41,),
    f.RUNNING: (3, 9, b"row"),
    f.LIFETIME: (24, 2, b"row"),
    f.PENDING_NUMBERS: (4, 7),
    f.SKIPPED: (4, 7),
    f.PENDING_COUNT: (12,),
    f.HOUR: (5, b"row"),
    f.SLICES: (5, [1, 4], b"block"),
    f.MINUTES: (5, [1, 4], b"block"),
    f.DAY_TOTAL: (b"8 bytes.", b"row"),
    f.FIVE_DAY_TOTAL: (b"8 bytes.", b"row"),
    m.BUILDING: (3, 24),
    m.TOTAL_UNTIL: (48, 5),
    m.REALTIME_START: ("run", "replication", OffsetVector({(TOPIC, 0): 7})),
}
SINGLE = {
    f.COMPACTED: {7: 2},
    f.ENTERED: OffsetVector({(TOPIC, 0): 7}),
    m.START: OffsetVector({(TOPIC, 0): 7}),
    m.ALIAS: ("00000000000000aa", "00000000000000bb"),
    m.DEPLOYMENT: "digest",
}
# Operations of the store that still spell a letter, and a sweep that judges strange keys by
# stricter patterns.
OWN_LETTERS = {
    "lifecycle/sweep.py",
    "stores/online/operations/deploying.py",
    "stores/online/operations/publish_days.py",
    "stores/online/operations/committed.py",
    "stores/online/operations/leaderboards.py",
    "stores/online/memory/store.py",
}


@pytest.mark.parametrize("entry", [*KEYS, *FIELDS], ids=lambda entry: entry.constant)
def test_a_name_is_read_as_it_was_written(entry: Field) -> None:
    parts = tuple(FILLED[slot] for slot in entry.slots)
    assert entry.parts(entry.name(*parts)) == parts
    assert entry.name(*parts).startswith(entry.prefix)


@pytest.mark.parametrize("where", Where)
def test_no_name_of_a_hash_is_taken_for_another(where: Where) -> None:
    for one, other in combinations(fields_of(where), 2):
        name = one.name(*(FILLED[slot] for slot in one.slots))
        assert other.parts(name) is None, (one.text, other.text)


def test_the_names_are_the_golden_ones() -> None:
    made = {
        "hot": k.HOT_KEY, "day": k.DAY_KEY, "swapped": k.PUBLISHED_KEY, "covers": k.VECTORS_KEY, "list": k.LIST_KEY,
        "events": k.MEMBERS_KEY, "ids": k.IDS_KEY, "marks": k.METADATA_KEY, "board": k.LEADERBOARD_KEY,
        "board of a past end": k.PAST_LEADERBOARD_KEY, "manifest": k.MANIFEST_KEY, "entered": k.ENTERED_KEY,
    }  # fmt: skip
    names = {
        name: entry.name(*(FILLED[slot] for slot in entry.slots)).decode()
        for name, entry in made.items()
    }
    assert names == {name: GOLDEN["keys"][name] for name in made}


@pytest.mark.parametrize("entry", VALUES, ids=lambda entry: entry.constant)
def test_a_value_of_several_parts_is_read_as_it_was_written(entry: Field) -> None:
    parts = VALUES[entry]
    read = entry.value.parse(entry.value.pack(*parts))
    flat = read if isinstance(read, tuple) else (read,)
    assert [_plain(part) for part in flat] == [_plain(part) for part in parts]


def _plain(part: object) -> object:
    if isinstance(part, memoryview):
        return bytes(part)
    return part.tolist() if isinstance(part, np.ndarray) else part


@pytest.mark.parametrize("entry", SINGLE, ids=lambda entry: entry.constant)
def test_a_value_of_one_part_is_read_as_it_was_written(entry: Field) -> None:
    value = SINGLE[entry]
    assert entry.value.parse(entry.value.pack(value)) == value


def test_page_and_jvm_are_what_the_table_says() -> None:
    script = page_script("store_fields")
    text = script.PAGE.read_text(encoding="utf-8")
    assert text == script.page(text), "python docs/store_fields.py writes it anew"
    assert script.JAVA.read_text(encoding="utf-8") == script.java(), (
        "python docs/store_fields.py writes it anew"
    )


def test_no_other_python_spells_a_name_of_the_store() -> None:
    letters = "".join(sorted({entry.letter for entry in FIELDS if len(entry.letter) == 1}))
    spelled = re.compile(rf"""b["'](?:sw:|[{letters}]:(?:%[sd]|["'])|[{letters}]["'])""")
    files = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "codec/store_fields" not in path.as_posix()
        and spelled.search(path.read_text(encoding="utf-8"))
    }
    # a q of HTTP, and letters of a format before
    others = {"serving/http/negotiation.py", "reading/rows.py"}
    assert files - others == OWN_LETTERS


def test_every_letter_of_a_script_is_one_of_the_table() -> None:
    prefixes = {entry.prefix.decode() for entry in FIELDS}
    for path in (PACKAGE / "stores/online/redis/scripts").glob("*.lua"):
        letters = set(re.findall(r"'([a-z]:?)'", path.read_text(encoding="utf-8")))
        assert letters <= prefixes, path.name


def test_no_other_java_spells_a_name_of_the_store() -> None:
    prefixes = "|".join(
        re.escape(entry.prefix.decode()) for entry in (*KEYS, *FIELDS) if b":" in entry.prefix
    )
    for path in (PACKAGE / "jvm/src/main").rglob("*.java"):
        if path.name != "StoreFields.java":
            assert not re.search(rf'"(?:{prefixes})', path.read_text(encoding="utf-8")), path.name


def test_the_door_gives_the_names_of_its_modules() -> None:
    statements = [
        node
        for node in ast.walk(ast.parse(Path(codec.__file__).read_text()))
        if isinstance(node, ast.ImportFrom)
    ]
    homes = {alias.name: str(node.module) for node in statements for alias in node.names}
    assert set(codec.__all__) <= set(homes)
    for name in codec.__all__:
        assert getattr(codec, name) is getattr(import_module(homes[name]), name), name


def test_a_name_of_no_module_is_none_of_the_door() -> None:
    name = "nonsense"
    with pytest.raises(AttributeError, match=name):
        getattr(codec, name)
