"""A probe tells how late answers are: what stands still hides nothing, and nobody else's features
are touched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from slicewise.aggregates import count
from slicewise.clock import ManualClock
from slicewise.features import own
from slicewise.features.declare.definitions import Feature, FeatureView, KafkaSource
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes import projects
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.lifecycle.health.alerts import runbook_link
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import health_of, overview
from slicewise.lifecycle.health.probing import ProbeStatus, late
from slicewise.local.servers.stream import probes_summary
from slicewise.probes.figures import Recent
from slicewise.probes.prober import EVERY_S, PATIENCE_S, Prober, Seen
from slicewise.stores.online.redis.status import StoreStatus

S = 1_000_000


@dataclass
class World:
    """A clock, a log and an API: an event is in answers `delay` seconds after it was produced,
    unless `down`."""

    delay: float = 0.003
    answer_s: float = 0.0005
    down: bool = False
    now: float = 100.0
    made: dict[str, float] = field(default_factory=dict)
    requests: list[int] = field(default_factory=list)

    def produce(self, probe: str) -> None:
        self.made[probe] = self.now

    def request(self, some: Sequence[str]) -> Sequence[bool] | None:
        self.now += self.answer_s
        self.requests.append(len(some))
        return None if self.down else [self.now >= self.made[probe] + self.delay for probe in some]

    def run(self, prober: Prober, seconds: float) -> Seen:
        """All that was seen."""
        end, fresh, lost = self.now + seconds, list[float](), 0
        while self.now < end:
            seen = prober.step()
            fresh += seen.freshness
            lost += seen.lost
            self.now += max(prober.wake(), 1e-6)
        return Seen(fresh, lost)

    def prober(self) -> Prober:
        return Prober(self.produce, self.request, lambda: self.now, "run")


# ------------------------------------------------------------------ the prober
def test_freshness_is_measured_to_about_a_millisecond_and_costs_a_few_questions() -> None:
    world = World(delay=0.004)
    seen = world.run(world.prober(), 60)
    # the first one showed that the platform is up
    assert len(seen.freshness) == pytest.approx(59, abs=1)
    assert all(0.004 <= source <= 0.0065 for source in seen.freshness)
    assert len(world.requests) / len(seen.freshness) < 6


def test_what_is_late_is_asked_for_less_often_and_still_measured_to_a_tenth() -> None:
    world = World(delay=0.5)
    seen = world.run(world.prober(), 60)
    assert all(0.5 <= source <= 0.56 for source in seen.freshness)
    assert len(world.requests) / 60 < 60


def test_a_store_that_stands_still_is_seen_by_every_probe_that_was_due_meanwhile() -> None:
    world = World()
    prober = world.prober()
    world.run(prober, 10)
    world.down = True
    assert world.run(prober, 20) == Seen([], 0)
    assert prober.waiting_s() == pytest.approx(20, abs=1.1)
    world.down = False
    late_ones = [source for source in world.run(prober, 2).freshness if source > 0.5]
    assert len(late_ones) == pytest.approx(20, abs=2)
    assert max(late_ones) == pytest.approx(20, abs=1.1)
    assert prober.waiting_s() < 1


def test_a_probe_that_never_shows_is_lost_once() -> None:
    world = World()
    prober = world.prober()
    world.run(prober, 5)
    world.delay = 10 * PATIENCE_S
    seen = world.run(prober, 3 * PATIENCE_S)
    assert seen.freshness == []
    assert seen.lost == pytest.approx(2 * PATIENCE_S, abs=3)


def test_a_platform_that_starts_is_not_late() -> None:
    world = World(delay=12.0)
    assert world.run(world.prober(), 12.1).freshness == []
    prober = world.prober()
    world.run(prober, 12.9)
    assert prober.shown


def test_a_process_that_was_stopped_makes_no_probes_of_the_past() -> None:
    world = World()
    prober = world.prober()
    world.run(prober, 3)
    before = prober.number
    world.now += 300
    world.run(prober, 2.5 * EVERY_S)
    assert prober.number - before <= 4


# ------------------------------------------------------------------ what is said
def test_quantiles_are_those_of_the_last_minutes_alone() -> None:
    clock = ManualClock(1_000 * S)
    recent = Recent(clock)
    recent.add(Seen([9.0], 1))
    clock.advance(200 * S)
    recent.add(Seen([0.002, 0.004]))
    status = recent.to_json("running", 0.5)
    assert (status["minute_p50_ms"], status["minute_p99_ms"], status["recent_p99_ms"]) == (
        4.0,
        4.0,
        9000.0,
    )
    assert (status["shown"], status["lost"], status["waiting_ms"]) == (3, 1, 500.0)
    clock.advance(301 * S)
    recent.add(Seen())
    status = recent.to_json("running", 0.0)
    assert (status["shown"], status["lost"], status["minute_p50_ms"]) == (0, 0, None)
    assert ProbeStatus.parse(json.dumps(status)).state == "running"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"lost": 2}, "2 of 302 probes"),
        ({"recent_p99_ms": 1_001.0}, "p99 1,001 ms"),
        ({"waiting_ms": 1_500.0}, "in no answer for 2 s"),
        ({"heartbeat_us": 60 * S}, "no word of the prober for 40 s"),
        ({"state": "stopped"}, "stopped while the stream runs"),
    ],
)
def test_the_alert_names_what_is_late(change: dict[str, object], reason: str | None) -> None:
    status = {
        "state": "running",
        "heartbeat_us": 99 * S,
        "shown": 300,
        "lost": 0,
        "minute_p50_ms": 3.0,
        "minute_p99_ms": 40.0,
        "recent_p99_ms": 1_000.0,
        "waiting_ms": 900.0,
    } | change
    reasons = late(ProbeStatus.parse(json.dumps(status)), 100 * S, 30 * S, 1_000.0)
    assert [reason in why for why in reasons] == [True] if reason else reasons == ()


def test_where_probes_are_deployed_their_silence_is_an_alert_and_elsewhere_it_is_none() -> None:
    streams = {
        name: json.dumps({"state": "running", "heartbeat_us": 99 * S, "lag": {}})
        for name in ("plays", own.SOURCE)
    }
    parts = {f"stream:{name}": text for name, text in streams.items()}
    without = {"sources": [{"name": "plays"}], "units": []}
    probed = {"sources": [{"name": "plays"}, {"name": own.SOURCE}], "units": []}
    assert health_of(StoreStatus(100 * S, {}, without, parts), Limits()).well
    silent = health_of(StoreStatus(100 * S, {}, probed, parts), Limits())
    assert silent.well  # answers are right
    assert silent.aging == ("probes: no prober has written a status",)
    assert silent.parts == {"probes": ("no prober has written a status",)}
    assert runbook_link("probes").endswith("#answers-are-not-fresh")
    garbled = StoreStatus(100 * S, {}, probed, parts | {"probes": "{}"})
    assert (
        health_of(garbled, Limits())
        .aging[0]
        .startswith("probes: the status of the probes cannot be read")
    )
    assert overview(garbled, Limits()).probes is None


def test_status_says_freshness_in_a_line() -> None:
    assert probes_summary({}) == ""
    line = probes_summary({"minute_p50_ms": 2.4, "minute_p99_ms": 31.0, "lost": 0})
    assert line == "produce to answer p50 2 ms, p99 31 ms; 0 lost in five minutes"
    assert (
        probes_summary({"minute_p50_ms": None, "lost": 7})
        == "no probe in an answer for a minute, 7 lost"
    )


# ------------------------------------------------------------------ what is deployed
def project(name: str, view: str) -> Deployment:
    source = KafkaSource(f"{view}s", schema={"k": "string"}, timestamp="kafka")
    seen = Feature("n", count(), windows=["1h"])
    return plan(Project.of(name, [FeatureView(view, source=source, entity=["k"], features=[seen])]))


def test_probes_leave_what_projects_declare_as_it_is() -> None:
    alone = project("shop", "sale")
    whole = projects.whole(alone, None, probes=True)
    assert whole.views == alone.views
    assert whole.project == "shop"
    assert whole.declared == alone
    assert {unit.storage_fingerprint for unit in alone.units} < {
        unit.storage_fingerprint for unit in whole.units
    }
    assert whole.resolve(own.REF)[0].entity == (("probe", "string"),)
    assert own.VIEW not in "".join(whole.views)
    assert Deployment.from_json(whole.to_json()) == whole


def test_applying_again_or_another_project_changes_no_probes_and_switching_them_off_takes_them_away() -> (
    None
):
    shop, bank = project("shop", "sale"), project("bank", "payment")
    first = projects.whole(shop, None, probes=True)
    assert projects.whole(shop, first, probes=True).digest == first.digest
    both = projects.whole(bank, first, probes=True)
    assert set(both.views) == {"sale", "payment"}
    assert both.project == "bank, shop"
    assert sum(unit.project == own.PROJECT for unit in both.units) == 1
    assert (
        projects.whole(bank, both, probes=False).digest
        == projects.whole(bank, projects.whole(shop, None, probes=False), probes=False).digest
    )
