"""A history that goes wrong is told as a short one that always goes wrong in the same way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.catalog import ENTRIES
from tests.simulation.histories import search
from tests.simulation.histories.choices import Choices, Tape
from tests.simulation.histories.search import shortest
from tests.simulation.histories.shrink import way

ROOT = Path(__file__).resolve().parents[2]
SHORT = 12
"""Moves that any of these rules needs."""


@pytest.mark.parametrize(
    ("world", "rule"),
    [("slices", "last"), ("slices", "straddle"), ("lists", "room"), ("realtime", "deletes")],
)
def test_a_wrong_history_shrinks_to_few_moves_that_go_wrong_the_same_way(
    world: str, rule: str
) -> None:
    entry = ENTRIES[world]
    history = entry.search(rule, 600)
    assert history is not None
    with entry.mutants[rule].removed() as rules:
        short = shortest(entry, history, rules)
        again = entry.play.history(short.seed, rules, short.tape)
    assert (again.wrong, again.story) == (short.wrong, short.story)
    assert way(short.wrong) == way(history.wrong)
    assert len(short.tape.moves) <= SHORT < len(history.tape.moves), str(short)
    assert entry.play.history(short.seed, tape=short.tape).wrong is None, "with the rule it is true"
    print(
        f"{world} without {rule}: {len(history.tape.moves)} moves, {len(short.tape.moves)} of "
        f"them needed\n{short}"
    )


def test_a_timeline_says_when_who_did_what_and_what_came_of_it() -> None:
    story = str(ENTRIES["slices"].play.history(7)).splitlines()
    assert story[0].split() == ["move", "time", "who", "what", "effect"]
    assert any(
        " stream 1 " in line and " apply first p" in line and line.endswith(" applied")
        for line in story
    )
    assert any(" hot set r:" in line for line in story)


def test_a_tape_answers_what_was_not_recorded_with_nothing_special() -> None:
    choices = Choices(tape=Tape((0.5,), ((0.25,),)))
    assert choices.randrange(10) == 5
    assert [choices.randrange(4) for _ in choices.moves(9, 9)] == [1]
    assert (choices.randint(2, 6), choices.choice("abc"), choices.pauses()) == (6, "c", False)
    kept = [1, 2, 3]
    choices.shuffle(kept)
    assert kept == [1, 2, 3]


@pytest.mark.long
def test_a_history_does_not_depend_on_the_process_that_plays_it() -> None:
    play = (
        "from tests.simulation.catalog import ENTRIES; print(*(str(e.play.history(3)) for e in "
        "ENTRIES.values()))"
    )
    stories = {
        subprocess.run(
            [sys.executable, "-c", play],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    }
    assert len(stories) == 1


@pytest.mark.long
def test_a_search_plays_as_many_histories_of_every_world_as_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        search.counted(["lists", "realtime-lists", "realtime"], first=0, histories=6, jobs=1) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" from ")[0] for line in lines[:3]] == [
        "lists: 6 histories",
        "realtime-lists: 6 histories",
        "realtime: 6 histories",
    ]
    assert lines[3].startswith("18 histories, ")
