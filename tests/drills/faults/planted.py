"""Wrong values in a store that runs and is loaded: the check names each by its cause and nobody
else, and what the runbook then says mends them.

Nothing but the content of what is planted is wrong: whole entries with their checksums, of
one card each (tests/support/stores/planted.py), of the view `VIEW`. Other views of the same cards
stay right.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slicewise.checks.model import Cause
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.jobs import Run as Triggered
from slicewise.lifecycle.jobs import check_arguments
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import CHECKS
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.drills.faults.compactions import HOURS, Compaction
from tests.drills.judging.judge import read, source_of
from tests.drills.judging.records import Part
from tests.drills.stage.run import Run
from tests.drills.stage.scene import TOPIC, Scene
from tests.e2e.payments import CARDS, SHOPS
from tests.support.stores.planted import (
    RECENT_US,
    Plant,
    Planter,
    doubled,
    dropped,
    expired,
    one_ulp,
    renamed_at,
    shifted_over,
)
from tests.support.stores.served import Event

VIEW = "per_card"
_HISTORY = 2_000
"""Payments of the hours before, each of them archived in time."""
_LAST_MINUTES = range(54, 60)
"""Minutes of the last hour that is over: in every window of an hour that ends before the same
minutes of the next."""
_COMPACTED_BEYOND = 5
"""Minutes from the beginning of the drill until the check asks."""
_EDGES = 8
"""Slices of which one is the first of an hour's window when the check asks: it asks within as many
minutes."""
_ALONE = float.fromhex("0x1.f8p+830")
"""Number so large that no sum hides its last bit; its mantissa is near two, so that scaled it is
off by one unit at most."""
_LARGE = 1e230
_PARTITION = 0
"""The partition of what is sent to be harmed."""
_ENDS_S = 900.0


@dataclass(frozen=True)
class Defect:
    """Defect that is planted in a card, and the cause that the check has to give."""

    what: str
    plant: Plant
    cause: Cause


def defects(recent: int, hour: int) -> Mapping[str, Defect]:
    """By kind. recent: a slice of an hour ago; hour: compacted twice."""
    return {
        "ulp": Defect("a value off by one unit in the last place", one_ulp, Cause.ROUNDING),
        "dropped": Defect("a partial dropped", dropped, Cause.DROPPED),
        "doubled": Defect("a partial that stands twice", doubled, Cause.DOUBLED),
        "shifted": Defect(
            "slices shifted by one", shifted_over(recent, recent + _EDGES - 1), Cause.BOUNDARY
        ),
        "expired": Defect("the blocks of all compacted hours expired", expired, Cause.EXPIRY),
        "stale": Defect(
            "a stale compacted entry under the newest archive", renamed_at(hour), Cause.STALE
        ),
    }


# ------------------------------------------------------------ what the check says
@dataclass(frozen=True)
class Checked:
    """A run of the check, and every difference that it recorded."""

    report: Mapping[str, Any]
    differences: Sequence[Mapping[str, Any]]
    took_s: float


def checked(scene: Scene, run_id: str) -> Checked:
    """Run as the task of `check_consistency` runs it."""
    folder = str(scene.platform.settings.state_dir / "reports" / "check")
    arguments = check_arguments(Triggered("scheduled", None, datetime.now(UTC), {}), folder)
    begun = time.monotonic()
    report = scene.platform.job(
        "check", *arguments, "--run", run_id, check=False, timeout_s=_ENDS_S
    )
    took_s = time.monotonic() - begun
    rows = [
        row
        for row in records(open_catalog(scene.platform.settings), CHECKS)
        if row["run_id"] == run_id
    ]
    assert {row["result"] for row in rows} & {"green", "red"}, (
        f"the check recorded nothing: {report}"
    )
    results = [row for row in rows if row["result"] in ("mismatch", "missing", "extra")]
    print(f"the check {run_id}: {report['outcome']}, {report['values']} values of {report['entities']} entities, "
          f"{len(results)} differ, {took_s:.1f} s", flush=True)  # fmt: skip
    return Checked(report, results, took_s)


def misjudged(differences: Sequence[Mapping[str, Any]], planted: Mapping[str, Cause]) -> list[str]:
    """Tells what is wrong with what a check said. planted: card -> cause; of the view `VIEW`."""
    by_card: dict[str, Counter[str]] = {}
    others: Counter[str] = Counter()
    for row in differences:
        card = json.loads(row["entity"]).get("card")
        if row["view"] != VIEW or card not in planted:
            others[f"{row['view']} {row['entity']}"] += 1
        else:
            by_card.setdefault(card, Counter())[row["kind"]] += 1
    wrong = [
        f"{who} is named, {n} times, and nothing was planted there" for who, n in others.items()
    ]
    for card, cause in planted.items():
        causes_given = by_card.get(card, Counter())
        causes = {named_cause for named_cause in causes_given if named_cause != Cause.UNCLASSIFIED}
        if not causes_given:
            wrong.append(f"{card} is not named ({cause} was planted)")
        elif causes != {cause}:
            wrong.append(f"{card} is told as {dict(causes_given)}, and {cause} was planted")
    return wrong


# ------------------------------------------------------------ what is there to harm
def _send(run: Run, some: Sequence[tuple[str, int, float]]) -> None:
    """(card, instant, amount), each of which came when it happened."""
    made = []
    for card, at_us, amount in some:
        event = {
            "card": card,
            "shop": SHOPS[0],
            "amount": amount,
            "items": 3,
            "accepted": True,
            "paid_at": at_us,
        }
        event |= dict.fromkeys(("born", "fee", "at", "tags"))
        made.append((_PARTITION, json.dumps(event).encode(), at_us // 1000 + 1))
    run.scene.platform.produce(TOPIC, made)


def _last_minutes(run: Run, card: str, hour: int) -> list[tuple[str, int, float]]:
    """Payments of the end of an hour."""
    return [
        (card, hour * HOUR_US + minute * MINUTE_US + run.rng.randrange(MINUTE_US), _amount(run))
        for minute in run.rng.sample(_LAST_MINUTES, 4)
    ]


def _recent(
    run: Run, card: str, number: int, amounts: Sequence[float]
) -> list[tuple[str, int, float]]:
    """Payments of a slice, and one each of two others near to it."""
    near = [(number - 3, _amount(run)), (number + 3, _amount(run))]
    return [
        (card, value * MINUTE_US + run.rng.randrange(MINUTE_US), amount)
        for value, amount in (*near, *((number, amount) for amount in amounts))
    ]


def _amount(run: Run) -> float:
    """Larger than all others: no sum hides it."""
    return run.rng.uniform(1, 9) * _LARGE


def planter_of(scene: Scene, stored: Any, client: Any, unit: StorageUnit) -> Planter:
    results = [read(source_of(scene.deployment), record) for record in scene.records()]
    events = [event for event in results if not isinstance(event, str)]
    (condition,) = {name for name, _ in unit.input_types} - {*events[0].columns}
    assert {
        f.aggregate.spec()["where"] for f in unit.features if "where" in f.aggregate.spec()
    } == {"accepted"}
    log = [
        Event(
            e.partition, e.offset, e.time, {**e.columns, condition: e.columns["accepted"]}, e.topic
        )
        for e in events
    ]
    return Planter(
        client, stored, unit, log, time.time_ns() // 1000, amount="amount", partition=_PARTITION
    )


# ------------------------------------------------------------ the drill
def planted(run: Run) -> None:
    """Six kinds, of six cards, at once; found by one run of the check, mended by
    `slicewise rebuild`."""
    scene = run.scene
    _await_early()
    scene.feed.pause()  # what comes late to an hour while it is compacted leaves its card over
    scene.feed.history(_HISTORY, HOURS)
    hour = time.time_ns() // 1000 // HOUR_US - 1
    cards = dict(
        zip(defects(0, 0), run.rng.sample([card for card in CARDS if card], 6), strict=True)
    )
    _send(
        run,
        [last_minute for card in cards.values() for last_minute in _last_minutes(run, card, hour)],
    )
    scene.await_applied()
    Compaction.of(scene).done()
    (unit,) = scene.deployment.view(VIEW)
    with scene.operator() as client, scene.platform.store() as stored:
        before = planter_of(scene, stored, client, unit)
        kept = {cards["stale"]: before.fields(before.day(cards["stale"], hour))}
        _send(run, _last_minutes(run, cards["stale"], hour))
        scene.await_applied()
        Compaction.of(scene).done()
        scene.feed.resume()
        run.some(3, 6)
        now_us = time.time_ns() // 1000
        recent, oldest = (now_us - RECENT_US) // MINUTE_US, now_us // MINUTE_US - 60
        some = _recent(run, cards["ulp"], recent, [_ALONE])
        for kind in ("dropped", "doubled"):
            some += _recent(run, cards[kind], recent, [_amount(run) for _ in range(3)])
        for number in range(oldest, oldest + _EDGES):
            some += [
                (cards["shifted"], number * MINUTE_US + 1_000_000 * n, _amount(run))
                for n in (7, 31)
            ]
        some += _recent(run, cards["shifted"], oldest + 2 * _EDGES, [])
        _send(run, some)
        scene.await_applied()
        planter = planter_of(scene, stored, client, unit)
        planter.now_us, planter.before = now_us, kept
        wanted = defects(oldest, hour)
        for card in cards.values():
            assert b"h:%d" % hour in planter.fields(planter.day(card, hour)), (
                f"hour {hour} of {card!r} is not compacted"
            )
        scene.watch.spares({(VIEW, (card,)) for card in cards.values()})
        begun: dict[str, float] = {}
        for kind, defect in wanted.items():
            defect.plant(planter, cards[kind])
            begun[kind] = time.monotonic()
            run.kills += 1
    red = checked(scene, f"planted-{run.rng.getrandbits(32)}")
    detected = time.monotonic()
    _print_differences(red, cards, wanted)
    assert red.report["outcome"] == "red", red.report
    wrong = misjudged(red.differences, {cards[kind]: plant.cause for kind, plant in wanted.items()})
    assert not wrong, "; ".join(wrong)
    scene.platform.cli("rebuild", VIEW, "--here", timeout_s=_ENDS_S)
    scene.await_whole()
    green = checked(scene, f"mended-{run.rng.getrandbits(32)}")
    mended = time.monotonic()
    assert green.report["outcome"] == "green", green.report
    scene.watch.spares(())
    for kind, plant in wanted.items():
        run.detect_s.append(detected - begun[kind])
        run.recover_s.append(mended - begun[kind])
        run.parts.append(Part(plant.what, plant.cause, run.detect_s[-1], run.recover_s[-1]))
    run.some(3, 6)  # the questions of these cards too


def _await_early() -> None:
    """Some minutes before the last of an hour: what was compacted is in a window then, when the
    check asks."""
    while (minute := datetime.now(UTC).minute) >= _LAST_MINUTES.start - _COMPACTED_BEYOND:
        print(f"minute {minute} of the hour: waiting for the next", flush=True)
        time.sleep(20)


def _print_differences(
    red: Checked, cards: Mapping[str, str], wanted: Mapping[str, Defect]
) -> None:
    for kind, card in cards.items():
        own = [row for row in red.differences if json.loads(row["entity"]).get("card") == card]
        counts = Counter((row["view"], row["kind"]) for row in own)
        print(f"{kind}: {card!r}: {len(own)} values, {dict(counts)}", flush=True)
        for row in own:
            if row["kind"] not in (wanted[kind].cause, Cause.UNCLASSIFIED):
                print(
                    f"    {row['kind']}: {row['feature']}: {row['online']} and {row['offline']}"[
                        :300
                    ],
                    flush=True,
                )
