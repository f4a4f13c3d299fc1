"""What the drills judge by finds what is wrong: a value, a token that went back, a training set that differs."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewise import slices, token
from slicewise.cover import Cover
from slicewise.features.plan import Deployment, plan
from slicewise.features.project import load_project
from slicewise.token import decode_all
from slicewise.training.dataset import build_training_set
from tests.e2e.compare import Count, spine
from tests.e2e.payments import CARDS, parse, payments
from tests.faults.real.judge import LoggedArchive, Record, judged
from tests.faults.real.records import BEGIN, END, Drilled, append, read, written
from tests.faults.real.scene import PROJECT
from tests.faults.real.watch import Answer, Bases, Question, questions
from tests.support.oracle import HOUR

TOPIC_ID = "5" * 32
NOW = 1_790_000_000_000_000
SEED = 7


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return plan(load_project(PROJECT / "features.py"))


@pytest.fixture(scope="module")
def records() -> list[Record]:
    ends = [0, 0]
    found = []
    for each in payments(SEED, 400, NOW, NOW - HOUR, NOW, bad=5):
        found.append((TOPIC_ID, each.partition, ends[each.partition], each.time_ms, each.value))
        ends[each.partition] += 1
    return found


@pytest.fixture(scope="module")
def answers(deployment: Deployment, records: list[Record]) -> list[Answer]:
    """What a platform would answer that had some of the events: by training, since that needs no server."""
    return list(answered(deployment, records, Cover({(TOPIC_ID, 0): 150, (TOPIC_ID, 1): 170})))


def answered(deployment: Deployment, records: list[Record], base: Cover) -> Iterator[Answer]:
    events = [e for record in records if (e := parse(record[0], record[1], record[2], record[4])) is not None]
    (source,) = deployment.sources
    archive = LoggedArchive(source, records, events)
    rng = random.Random(SEED)
    for question in questions(deployment):
        features = tuple(f for f in question.features if f.window.kind != "session")  # bounds of those need the store
        if not features:
            continue
        asked = Question(question.unit, features)
        unit, at = asked.unit, "2026-09-21T14:13:20Z"
        bounds = {f.column: slices.bounds(f.window, "live", NOW, unit.slice_us) for f in features}
        text = token.encode(unit.storage_fingerprint, unit.definition_fingerprint, base, {}, "live", bounds)
        key = asked.key(rng) if "card" not in dict(unit.entity) else tuple(CARDS[0] for _ in unit.entity)
        row = {"unit": unit, "key": key, "at": at, "token": text}
        built = build_training_set(deployment, archive, spine(unit, [row]), asked.refs, "token").table
        values = {ref: json.loads(json.dumps(built.column(ref).to_pylist()[0])) for ref in asked.refs}
        yield Answer(asked, key, at, {"token": text, "values": values})


def test_what_is_right_is_found_right_by_oracle_and_training(
    deployment: Deployment, records: list[Record], answers: list[Answer]
) -> None:
    count = judged(deployment, records, copy.deepcopy(answers))
    assert not count.wrong, "\n".join(count.wrong[:10])
    assert count.compared == 2 * sum(len(answer.question.features) for answer in answers) > 200


def test_a_value_that_is_off_is_found_twice(
    deployment: Deployment, records: list[Record], answers: list[Answer]
) -> None:
    for answer in copy.deepcopy(answers):
        ref = f"{answer.question.unit.view}:payments_10m"
        if ref in answer.result["values"]:
            answer.result["values"][ref] += 1
            found = judged(deployment, records, [answer]).wrong
            assert len(found) == 2, found
            assert found[0].startswith(ref.replace(":", f" {answer.key} "))
            assert found[1].startswith(f"training {ref}")
            return
    pytest.fail("nothing to change")


def test_an_answer_that_has_an_event_more_than_its_token_says_is_found(
    deployment: Deployment, records: list[Record], answers: list[Answer]
) -> None:
    one = next(a for a in answers if a.question.unit.view == "everything")
    (said,) = decode_all(one.result["token"])
    less = Cover({place: offset - 1 for place, offset in said.base.offsets.items()})
    text = token.encode(said.unit, said.definition, less, {}, "live", said.bounds)
    assert judged(deployment, records, [Answer(one.question, one.key, one.at, {**one.result, "token": text})]).wrong


def test_nothing_is_judged_of_nothing(deployment: Deployment) -> None:
    assert judged(deployment, [], []) == Count()


def cover(*offsets: int) -> Cover:
    return Cover({(TOPIC_ID, partition): offset for partition, offset in enumerate(offsets)})


def test_a_token_that_goes_back_within_one_life_is_told_and_between_two_it_is_not() -> None:
    bases = Bases()
    assert bases.after(0, "unit", ("ada",), cover(5, 7)) is None
    assert bases.after(0, "unit", ("eve",), cover(4, 7)) is None, "of another entity"
    assert bases.after(0, "other", ("ada",), cover(4, 7)) is None, "of another unit"
    assert "went back" in str(bases.after(0, "unit", ("ada",), cover(4, 8)))
    bases.lost()
    assert bases.after(0, "unit", ("ada",), cover(9, 9)) is None, "asked before the loss"
    assert bases.after(1, "unit", ("ada",), cover(1, 1)) is None
    assert "went back" in str(bases.after(1, "unit", ("ada",), cover(1)))


def drilled(drill: str, **changes: object) -> Drilled:
    given: dict[str, object] = {
        "drill": drill,
        "fault": f"the fault of {drill}",
        "invariants": ("I1", "I2"),
        "seed": 1,
        "when": "2026-11-22T10:00:00Z",
        "events": 10,
        "kills": 2,
        "answers": 100,
        "refused": 1,
        "compared": 1_500,
        "wrong": (),
        "detect_s": None,
        "recover_s": 4.25,
    }
    return Drilled(**{**given, **changes})  # type: ignore[arg-type]


def test_the_page_shows_what_all_drills_of_a_file_came_to(tmp_path: Path) -> None:
    file = tmp_path / "records" / "drills.jsonl"
    kept = [
        drilled("kill"),
        drilled("stop", broke="no end", wrong=("é: expected 1, found 2",)),
        drilled("kill", seed=2, when="2026-11-23T10:00:00Z", detect_s=0.5, recover_s=9.0),
    ]
    for each in kept:
        append(file, each)
    assert read(file) == kept
    assert [each.passed for each in kept] == [True, False, True]
    page = written(f"above\n{BEGIN}\nold\n{END}\nbelow\n", kept)
    assert page.startswith(f"above\n{BEGIN}\n3 drills, 4,500 values compared, 2026-11-22 to 2026-11-23.\n")
    assert page.endswith(f"{END}\nbelow\n")
    rows = [line for line in page.splitlines() if line.startswith("| the fault")]
    assert rows == [
        "| the fault of kill (`kill`) | I1, I2 | 1, 2 | 4 | 200 | 2 | 3,000 | 0 | 0.5 | 9.0 |",
        "| the fault of stop (`stop`) | I1, I2 | 1 | 2 | 100 | 1 | 1,500 | 1; 1 of 1 did not end | – | 4.2 |",
    ]
    assert written(page, kept) == page
    with pytest.raises(ValueError, match="drills"):
        written("no marks", kept)
