"""The drills' judges find what is wrong: a value, a token that went back, a training set that
differs, another definition."""

from __future__ import annotations

import copy
import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from slicewise.checks.model import Cause
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.changes.schema_change import succeeded
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.offsets import token
from slicewise.offsets.token import decode_all
from slicewise.offsets.vector import OffsetVector
from slicewise.training.dataset import build_training_set
from tests.drills.__main__ import PAGE, RECORDS
from tests.drills.catalog import DRILLS
from tests.drills.faults.changes import changed_project
from tests.drills.faults.planted import VIEW, misjudged
from tests.drills.faults.schemas import ADDED, REASONS, WIDER, shaped
from tests.drills.faults.schemas import changed_project as changed_schema
from tests.drills.judging.judge import Record, judged, logged_archive, read, schema_at, source_of
from tests.drills.judging.records import BEGIN, END, Drilled, Part, keep, table, written
from tests.drills.judging.records import read as read_records
from tests.drills.judging.watch import Answer, Bases, Question, Watch, questions, under
from tests.drills.stage.scene import PROJECT
from tests.e2e.compare import Count, spine
from tests.e2e.payments import CARDS, Produced, payments
from tests.support.oracles.answers import HOUR

TOPIC_ID = "5" * 32
OTHER_ID = "6" * 32
NOW = 1_790_000_000_000_000
SEED = 7


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    return plan(load_project(PROJECT / "features.py"))


@pytest.fixture(scope="module")
def records() -> list[Record]:
    ends = [0, 0]
    results = []
    for payment in payments(SEED, 400, NOW, NOW - HOUR, NOW, bad=5):
        results.append(
            (TOPIC_ID, payment.partition, ends[payment.partition], payment.time_ms, payment.value)
        )
        ends[payment.partition] += 1
    return results


@pytest.fixture(scope="module")
def answers(deployment: Deployment, records: list[Record]) -> list[Answer]:
    """Answers of a platform that had some of the events: by training, since that needs no
    server."""
    return list(
        answered(deployment, records, OffsetVector({(TOPIC_ID, 0): 150, (TOPIC_ID, 1): 170}))
    )


def answered(
    deployment: Deployment,
    records: list[Record],
    base: OffsetVector,
    history: Deployment | None = None,
) -> Iterator[Answer]:
    """history: which has the offsets of all schemas."""
    results = (read(source_of(history or deployment), record) for record in records)
    archive = logged_archive(
        source_of(deployment), records, [e for e in results if not isinstance(e, str)]
    )
    rng = random.Random(SEED)
    for question in questions(deployment):
        # bounds of those need the store
        features = tuple(f for f in question.features if not f.window.session_gap_us)
        if not features:
            continue
        narrowed = Question(question.unit, features)
        unit, at = narrowed.unit, "2026-09-21T14:13:20Z"
        bounds = {f.column: f.window.bounds("live", NOW, unit.slice_us) for f in features}
        text = token.encode(
            unit.storage_fingerprint, unit.definition_fingerprint, base, {}, "live", bounds
        )
        key = (
            narrowed.key(rng)
            if "card" not in dict(unit.entity)
            else tuple(CARDS[0] for _ in unit.entity)
        )
        row = {"unit": unit, "key": key, "at": at, "token": text}
        built = build_training_set(
            deployment, archive, spine(unit, [row]), narrowed.refs, "token"
        ).table
        values = {
            ref: json.loads(json.dumps(built.column(ref).to_pylist()[0])) for ref in narrowed.refs
        }
        yield Answer(narrowed, key, at, {"token": text, "values": values})


def test_what_is_right_is_found_right_by_oracle_and_training(
    deployment: Deployment, records: list[Record], answers: list[Answer]
) -> None:
    count = judged([deployment], records, copy.deepcopy(answers))
    assert not count.wrong, "\n".join(count.wrong[:10])
    assert count.compared == 2 * sum(len(answer.question.features) for answer in answers) > 200


def test_a_value_that_is_off_is_found_twice(
    deployment: Deployment, records: list[Record], answers: list[Answer]
) -> None:
    for answer in copy.deepcopy(answers):
        ref = f"{answer.question.unit.view}:payments_10m"
        if ref in answer.result["values"]:
            answer.result["values"][ref] += 1
            wrong = judged([deployment], records, [answer]).wrong
            assert len(wrong) == 2, wrong
            assert wrong[0].startswith(ref.replace(":", f" {answer.key} "))
            assert wrong[1].startswith(f"training {ref}")
            return
    pytest.fail("nothing to change")


def test_an_answer_that_has_an_event_more_than_its_token_says_is_found(
    deployment: Deployment, records: list[Record], answers: list[Answer]
) -> None:
    one = next(a for a in answers if a.question.unit.view == "everything")
    (decoded,) = decode_all(one.result["token"])
    less = OffsetVector(
        {topic_partition: offset - 1 for topic_partition, offset in decoded.base.offsets.items()}
    )
    text = token.encode(decoded.unit, decoded.definition, less, {}, "live", decoded.bounds)
    assert judged(
        [deployment],
        records,
        [Answer(one.question, one.key, one.at, {**one.result, "token": text})],
    ).wrong


def test_events_of_a_topic_that_was_made_anew_are_others_whatever_their_offsets(
    deployment: Deployment, records: list[Record]
) -> None:
    both = [*records, *((OTHER_ID, *record[1:]) for record in records[:150])]
    base = OffsetVector(
        {
            (topic, p): 150 if topic == TOPIC_ID else 60
            for topic in (TOPIC_ID, OTHER_ID)
            for p in (0, 1)
        }
    )
    answers = list(answered(deployment, both, base))
    assert not judged([deployment], both, copy.deepcopy(answers)).wrong
    one = next(a for a in answers if a.question.unit.view == "everything")
    (decoded,) = decode_all(one.result["token"])
    less = OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in decoded.base.offsets.items()
            if topic_partition[0] == TOPIC_ID
        }
    )
    text = token.encode(decoded.unit, decoded.definition, less, {}, "live", decoded.bounds)
    assert judged(
        [deployment], both, [Answer(one.question, one.key, one.at, {**one.result, "token": text})]
    ).wrong


def test_an_answer_is_judged_by_the_definition_that_made_it_and_by_none_that_does_not_stand(
    deployment: Deployment, records: list[Record], answers: list[Answer], tmp_path: Path
) -> None:
    changed = plan(load_project(changed_project(tmp_path) / "features.py"))
    view, column = "per_card", "spread_10m"
    before, after = (
        next(
            Question(unit, (f,))
            for unit in version.units
            if unit.view == view
            for f in unit.features
            if f.column == column
        )
        for version in (deployment, changed)
    )
    assert before.unit.storage_fingerprint == after.unit.storage_fingerprint
    assert before.unit.definition_fingerprint != after.unit.definition_fingerprint
    assert under(before, after.unit) == after
    assert (
        under(next(q for q in questions(changed) if q.unit.view == "lately_by_shop"), before.unit)
        is None
    )
    made = next(a for a in answers if a.question.unit.view == view)
    base = decode_all(made.result["token"])[0].base
    by_new = [
        a
        for a in answered(changed, records, base)
        if column in {f.column for f in a.question.features}
    ]
    assert by_new
    assert not judged([deployment, changed], records, copy.deepcopy(by_new)).wrong
    taken_for_old = [
        Answer(meant, a.key, a.at, a.result)
        for a in by_new
        if (meant := under(a.question, before.unit))
    ]
    assert any(
        column in wrong for wrong in judged([deployment, changed], records, taken_for_old).wrong
    )
    with serving(by_new[0].at, by_new[0].result) as url:
        watch = Watch(url, [by_new[0].question], random.Random(SEED))
        try:
            watch.defined(deployment)
            assert watch.request(by_new[0].question, by_new[0].key) is None
            watch.defined(deployment, changed)
            kept = watch.request(by_new[0].question, by_new[0].key)
        finally:
            watch.stop()
    assert [fault for fault in watch.wrong if "does not stand" in fault] == watch.wrong
    assert len(watch.wrong) == 1
    assert kept is not None
    assert kept.question.unit.definition_fingerprint == after.unit.definition_fingerprint


@contextmanager
def serving(at: str, result: dict[str, object]) -> Iterator[str]:
    """A server that gives this answer to whatever it is asked."""
    body = json.dumps({"t": at, "results": [result], "flags": []}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_a_record_is_what_the_schema_of_its_offset_says(
    tmp_path: Path, deployment: Deployment
) -> None:
    plain, added, wider = (
        source_of(planned)
        for planned in (
            deployment,
            *(
                plan(load_project(changed_schema(tmp_path, schema) / "features.py"))
                for schema in (ADDED, WIDER)
            ),
        )
    )
    before = succeeded(added, plain).with_until(offset_vector(10, 20))
    history = succeeded(wider, before).with_until(offset_vector(15, 20))

    def judged_at(offset: int, **changed: object) -> object:
        event = (
            json.loads(payments(SEED, 1, NOW, NOW - HOUR, NOW)[0].value)
            | {"born": None, "fee": None}
            | changed
        )
        result = read(history, (TOPIC_ID, 0, offset, NOW // 1000, json.dumps(event).encode()))
        return (
            result if isinstance(result, str) else (result.columns["fee"], result.columns["born"])
        )

    # partition 0: no column below 10, a float below 15, a double from there on
    offsets = (9, 10, 14, 15)
    as_float = 0.10000000149011612
    assert [judged_at(offset, fee=0.1) for offset in offsets] == [
        (None, None),
        *[(as_float, None)] * 2,
        (0.1, None),
    ]
    assert [judged_at(offset, fee="0.1") for offset in offsets] == [
        (None, None),
        *["wrong_type:fee"] * 3,
    ]
    assert [judged_at(offset, fee=1e300) for offset in offsets] == [
        (None, None),
        *["out_of_range:fee"] * 2,
        (1e300, None),
    ]
    assert [judged_at(offset, born="soon") for offset in offsets] == [
        (None, None),
        *["bad_date:born"] * 2,
        (None, None),
    ]
    assert [judged_at(offset, born=7) for offset in offsets] == [
        (None, None),
        *["wrong_type:born"] * 2,
        (None, None),
    ]
    assert judged_at(10, born="1970-01-02") == (None, "1970-01-02")
    assert schema_at(history, OTHER_ID, 0, 9) == history, "the offsets of another topic say nothing"


@pytest.mark.long
def test_answers_are_judged_by_the_schemas_of_their_offsets(
    tmp_path: Path, deployment: Deployment, records: list[Record]
) -> None:
    rng = random.Random(SEED)
    sent = [Produced(record[1], record[4], record[3]) for record in records]
    shapes = [
        (*record[:4], shaped(rng, produced).value)
        for record, produced in zip(records, sent, strict=True)
    ]
    added, wider = (
        plan(load_project(changed_schema(tmp_path, schema) / "features.py"))
        for schema in (ADDED, WIDER)
    )
    second = joined(added, deployment).with_until({"payments": offset_vector(40, 40)})
    third = joined(wider, second).with_until({"payments": offset_vector(120, 120)})
    answers = [
        *answered(second, shapes, offset_vector(110, 115), third),
        *answered(third, shapes, offset_vector(170, 180)),
    ]
    of_fees = [answer for answer in answers if answer.question.unit.view == "fees_by_card"]
    assert len(of_fees) == 2
    deployments = [deployment, second, third]
    assert not judged(deployments, shapes, copy.deepcopy(answers)).wrong
    # all of it floats' until there, or doubles' from there on
    for until in (offset_vector(120, 120), offset_vector(40, 40)):
        other = joined(wider, joined(added, deployment).with_until({"payments": until})).with_until(
            {"payments": until}
        )
        wrong = judged([deployment, second, other], shapes, copy.deepcopy(of_fees)).wrong
        assert any("fees_by_card" in text for text in wrong)


def test_producers_send_every_shape_and_none_is_wrong_in_two_things(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    added = source_of(plan(load_project(changed_schema(tmp_path, ADDED) / "features.py")))
    sent = [shaped(rng, payment) for payment in payments(SEED, 2_000, NOW, NOW - HOUR, NOW)]
    results = [
        read(added, (TOPIC_ID, 0, i, NOW // 1000, payment.value)) for i, payment in enumerate(sent)
    ]
    assert {outcome for outcome in results if isinstance(outcome, str)} == REASONS
    assert any("fee" not in json.loads(payment.value) for payment in sent)


def test_nothing_is_judged_of_nothing(deployment: Deployment) -> None:
    assert judged([deployment], [], []) == Count()


def offset_vector(*offsets: int) -> OffsetVector:
    return OffsetVector({(TOPIC_ID, partition): offset for partition, offset in enumerate(offsets)})


def test_a_token_that_goes_back_is_told_whatever_the_store_lost() -> None:
    bases = Bases()
    assert bases.after("unit", ("ada",), offset_vector(5, 7)) is None
    assert bases.after("unit", ("eve",), offset_vector(4, 7)) is None, "of another entity"
    assert bases.after("other", ("ada",), offset_vector(4, 7)) is None, "of another unit"
    assert "went back" in str(bases.after("unit", ("ada",), offset_vector(4, 8)))
    assert "went back" in str(bases.after("unit", ("ada",), offset_vector(5)))
    assert bases.after("unit", ("ada",), offset_vector(5, 7)) is None, (
        "what is not served again was not lost"
    )
    assert bases.after("unit", ("ada",), offset_vector(6, 7)) is None


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
    for drill in kept:
        keep(file, drill)
    assert read_records(file) == kept
    assert [drill.passed for drill in kept] == [True, False, True]
    page = written(f"above\n{BEGIN}\nold\n{END}\nbelow\n", kept, ["stop", "kill", "never"])
    summary = (
        "3 plays, 4,500 values compared, 1 mismatches, 1 did not end; 2026-11-22 to 2026-11-23.\n"
        "Not recorded: `never`."
    )
    assert page.startswith(f"above\n{BEGIN}\n{summary}\n")
    assert page.endswith(f"{END}\nbelow\n")
    rows = [line for line in page.splitlines() if line.startswith("| the fault")]
    assert rows == [
        (
            "| the fault of stop (`stop`) | I1, I2 | 1 | 2 | 100 | 1 | 1,500 | 1 | 1 of 1 | – | "
            "4.2 | 2026-11-22 |"
        ),
        (
            "| the fault of kill (`kill`) | I1, I2 | 1, 2 | 4 | 200 | 2 | 3,000 | 0 | 0 of 2 | "
            "0.5 | 9.0 | 2026-11-23 |"
        ),
    ]
    assert written(page, kept, ["stop", "kill", "never"]) == page
    with pytest.raises(ValueError, match="drills"):
        written("no marks", kept, ["kill"])


def test_the_page_shows_each_defect_that_was_planted_at_once_by_its_longest(tmp_path: Path) -> None:
    file = tmp_path / "drills.jsonl"
    one, other = Part("one off", "rounding", 70.5, 150.0), Part("gone", "dropped", 71.0, 151.0)
    again = Part("one off", "rounding", 80.25, 140.0)
    kept = [
        drilled("plant", parts=(one, other)),
        drilled("plant", seed=2, parts=(again,)),
        drilled("kill"),
    ]
    for drill in kept:
        keep(file, drill)
    assert read_records(file) == kept
    rows = [row for row in table(kept, ["plant", "kill"]).splitlines() if row.startswith("| –")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(cell[0], cell[9], cell[10]) for cell in cells] == [
        ("– one off: told as `rounding`", "80.2", "150.0"),
        ("– gone: told as `dropped`", "71.0", "151.0"),
    ]
    assert {len(cell) for cell in cells} == {12}
    assert {cell for text in cells for cell in (*text[1:9], text[11])} == {""}


def test_a_check_that_names_too_few_too_many_or_by_another_cause_is_misjudged() -> None:
    def difference(card: str, cause: Cause, view: str = VIEW) -> dict[str, str]:
        return {"view": view, "entity": json.dumps({"card": card}), "kind": cause.value}

    wanted = {"ada": Cause.DROPPED, "eve": Cause.STALE}
    right = [
        difference("ada", Cause.DROPPED),
        difference("ada", Cause.UNCLASSIFIED),
        difference("eve", Cause.STALE),
    ]
    assert misjudged(right, wanted) == []
    assert misjudged(right[:2], wanted) == ["eve is not named (stale was planted)"]
    assert misjudged([*right, difference("eve", Cause.LATE)], wanted) == [
        "eve is told as {'stale': 1, 'late': 1}, and stale was planted"
    ]
    only_unclassified = [difference("ada", Cause.UNCLASSIFIED), right[2]]
    assert misjudged(only_unclassified, wanted) == [
        "ada is told as {'unclassified': 1}, and dropped was planted"
    ]
    for other in (
        difference("bob", Cause.DROPPED),
        difference("ada", Cause.DROPPED, "ever_by_card"),
    ):
        (misjudgement,) = misjudged([*right, other], wanted)
        assert "nothing was planted there" in misjudgement
    whole = {"view": "everything", "entity": "{}", "kind": "logic"}
    assert misjudged([*right, whole], wanted) == [
        "everything {} is named, 1 times, and nothing was planted there"
    ]


@pytest.mark.long
def test_what_is_spared_is_not_asked_about_and_then_it_is(answers: list[Answer]) -> None:
    one = next(a for a in answers if a.question.unit.view == VIEW)
    with serving(one.at, one.result) as url:
        watch = Watch(url, [one.question], random.Random(SEED))
        try:
            spared = {(VIEW, (card,)) for card in CARDS[:20]}
            watch.spares(spared)
            watch.resume()
            wait_for(lambda: len(watch.answers) >= 5)
            watch.pause()
            assert not {(VIEW, a.key) for a in watch.answers} & spared
            watch.spares(())
            watch.resume()
            wait_for(lambda: bool({(VIEW, a.key) for a in watch.answers} & spared))
        finally:
            watch.stop()


def wait_for(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_drill_that_is_played_again_by_its_seed_takes_the_place_of_what_it_was(
    tmp_path: Path,
) -> None:
    file = tmp_path / "drills.jsonl"
    for drill in (
        drilled("stop", broke="no end"),
        drilled("stop", seed=2),
        drilled("kill"),
        drilled("stop"),
    ):
        keep(file, drill)
    assert read_records(file) == [drilled("stop", seed=2), drilled("kill"), drilled("stop")]


def test_the_page_is_what_the_recorded_drills_give() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page, read_records(RECORDS), [*DRILLS]), (
        "python -m tests.drills --table writes it"
    )


def test_the_page_says_of_every_drill_which_fault_it_shows() -> None:
    shown = (
        PAGE.read_text(encoding="utf-8")
        .partition("## Where each fault is shown")[2]
        .partition("\n## ")[0]
    )
    named = set(re.findall(r"`([^`]+)`", shown))
    files = {name for name in named if "/" in name}
    assert all((PAGE.parents[1] / name).exists() for name in files)
    assert {name for name in named - files if name in DRILLS} == {*DRILLS}
