"""docs/architecture.md is a map of what is there: every room is on it, and every path that it names
exists."""

from __future__ import annotations

import re

from tests.architecture.import_table import LAYERS, PACKAGE, ROOMS, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_LINES = 150
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
TREE, TABLE = (text for language, text in BLOCKS if not language)


def test_every_path_that_the_map_names_exists() -> None:
    named = set(re.findall(r"`([\w./-]+\.(?:py|java|lua|md))`", PAGE))
    assert len(named) > 20
    assert not sorted(
        name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    )


def test_every_room_stands_on_the_map() -> None:
    words = set(re.findall(r"[\w]+", TREE))
    rooms = {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    within = {
        name
        for above, names in ROOMS.items()
        if "/" not in above and above != "lifecycle"
        for name in names
    }
    assert not sorted((rooms | within) - words)


def test_the_rule_on_the_map_is_the_table() -> None:
    assert [tuple(layer.split()) for layer in " ".join(TABLE.split()).split("|")] == [*LAYERS]


def test_a_person_reads_the_map_in_minutes() -> None:
    assert len(PAGE.splitlines()) <= MOST_LINES
