"""A raised semantic version leaves what is deployed as it was, until its view is migrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import slicewise as sw
from slicewise.aggregates import Aggregate, Behind, from_spec
from slicewise.aggregates.exact.sums import Sum
from slicewise.errors import DefinitionError, UnknownName
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import changes
from slicewise.features.plan.changes.migrating import STEPS, Migration, beside, migrations
from slicewise.features.plan.changes.projects import promoted, retired, whole
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan

REASON = "stored by semantic version 1 of sum, this code has 2; a version is needed"
PLAYS = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
)


class FirstSum(Sum):
    """The class of before, as a release keeps it."""

    semantic_version = 1


def raise_it(patch: pytest.MonkeyPatch, *, kept: bool = True) -> None:
    """This code is a release that stores sums otherwise."""
    patch.setattr(Sum, "semantic_version", 2)
    patch.setattr(Sum, "earlier", {1: FirstSum} if kept else {})


def _counts() -> sw.FeatureView:
    return sw.FeatureView(
        "counts",
        source=PLAYS,
        entity=["user_id"],
        features=[sw.Feature("plays", sw.count(), windows=["1h"])],
    )


def planned(*aggregates: Aggregate) -> Deployment:
    """A project of two views: of these aggregates, and of a count."""
    features = [
        sw.Feature(f"value{i}", aggregate, windows=["1h"]) for i, aggregate in enumerate(aggregates)
    ]
    views = [
        sw.FeatureView("totals", source=PLAYS, entity=["user_id"], features=features),
        _counts(),
    ]
    return plan(Project.of("music", [PLAYS, *views]))


def stored(deployment: Deployment) -> Deployment:
    """The deployment as a process reads it."""
    return Deployment.from_json(deployment.to_json())


def left(
    now: Deployment, stands: Deployment, *unready: str, stood: Sequence[Deployment] = ()
) -> tuple[Migration, ...]:
    """Migrations that definitions leave on what stands, after others that stood."""
    return migrations(now, whole(now, stands, probes=False), stands, unready, (), stood)


@pytest.mark.parametrize("where", [None, "seconds > 3"])
def test_what_is_deployed_is_read_as_before(
    where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = planned(sw.sum("seconds", where=where), sw.mean("seconds"))
    text = before.to_json()
    raise_it(monkeypatch)
    stands = Deployment.from_json(text)
    assert stands.to_json() == text
    assert [unit.storage_fingerprint for unit in stands.units] == [
        unit.storage_fingerprint for unit in before.units
    ]
    after = whole(planned(sw.sum("seconds", where=where), sw.mean("seconds")), stands, probes=False)
    assert set(after.views) == {"totals", "totals@2", "counts"}
    new, old = after.view("totals@2")[0], after.view("totals")[0]
    assert new.storage_fingerprint != old.storage_fingerprint
    assert stored(after).to_json() == after.to_json()


def test_plan_says_which_version_stores_and_which_this_code_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = planned(sw.sum("seconds")).to_json()
    raise_it(monkeypatch)
    stands = Deployment.from_json(text)
    after = whole(planned(sw.sum("seconds")), stands, probes=False)
    reasons = {one.view: one.reason for one in changes(after, stands)}
    assert f"value0_1h is {REASON}" in reasons["totals@2"]
    assert "beside totals, which answers as before" in reasons["totals@2"]


def test_each_step_that_is_done_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = planned(sw.sum("seconds")).to_json()
    raise_it(monkeypatch)
    now = planned(sw.sum("seconds"))
    stands = Deployment.from_json(text)
    after = whole(now, stands, probes=False)
    first = Migration("totals", "totals@2", ("totals@1",), (REASON,), STEPS)
    assert left(now, stands) == (first,)
    assert [one.steps for one in left(now, after, "totals@2")] == [STEPS[1:]]
    assert [one.steps for one in left(now, after)] == [STEPS[2:]]
    live = promoted(after, "totals@2")
    assert left(now, live, stood=[stands, after, live]) == (replace(first, steps=("retire",)),)
    assert left(now, live) == (), "nobody knows what it replaced"
    over = retired(live, ["totals@1"])
    assert left(now, over) == ()
    assert set(over.views) == {"totals", "counts"}


def test_a_version_that_the_definitions_are_not_is_no_aim(monkeypatch: pytest.MonkeyPatch) -> None:
    text = planned(sw.sum("seconds")).to_json()
    raise_it(monkeypatch)
    stands = whole(planned(sw.max("seconds")), Deployment.from_json(text), probes=False)
    (one,) = left(planned(sw.sum("seconds")), stands)
    assert (one.version, one.steps) == ("totals@3", STEPS)


def test_a_version_that_was_not_the_live_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody keeps version 1 readable; only version 2, which was live, is replaced."""
    first = planned(sw.sum("seconds"))
    second = whole(planned(sw.sum("seconds", where="seconds > 3")), first, probes=False)
    both = promoted(second, "totals@2")
    texts = [one.to_json() for one in (first, second, both)]
    raise_it(monkeypatch)
    stood = [Deployment.from_json(text) for text in texts]
    now = planned(sw.sum("seconds", where="seconds > 3"))
    (one,) = left(now, stood[-1], stood=stood)
    assert (one.version, one.replaced, one.stays) == ("totals@3", ("totals@2",), ("totals@1",))
    stood.append(whole(now, stood[-1], probes=False))
    stood.append(promoted(stood[-1], "totals@3"))
    (one,) = left(now, stood[-1], stood=stood)
    assert (one.steps, one.replaced, one.stays) == (("retire",), ("totals@2",), ("totals@1",))
    stood.append(retired(stood[-1], ["totals@2"]))
    assert left(now, stood[-1], stood=stood) == ()
    assert set(stood[-1].views) == {"totals", "totals@1", "counts"}


def test_other_changes_of_the_project_are_no_part_of_a_migration() -> None:
    stands = planned(sw.sum("seconds"))
    more = sw.FeatureView(
        "more",
        source=PLAYS,
        entity=["user_id"],
        features=[sw.Feature("plays", sw.count(), windows=["1h"])],
    )
    views = [
        sw.FeatureView(
            "totals",
            source=PLAYS,
            entity=["user_id"],
            features=[sw.Feature("value0", sw.max("seconds"), windows=["1h"])],
        ),
        sw.FeatureView(
            "counts",
            source=PLAYS,
            entity=["user_id"],
            owner="ann",
            features=[sw.Feature("plays", sw.count(), windows=["1h"])],
        ),
    ]
    alone = plan(Project.of("music", [PLAYS, views[0], _counts()]))
    for now, names in (
        (alone, []),
        (plan(Project.of("music", [PLAYS, *views, more])), ["more", "counts"]),
        (plan(Project.of("music", [PLAYS, views[0]])), ["counts"]),
    ):
        after = whole(now, stands, probes=False)
        moved = migrations(now, after, stands, (), ["totals"])
        assert [one.steps for one in moved] == [STEPS]
        assert sorted(one.name for one in beside(after, stands, moved)) == sorted(names)
    done = whole(alone, stands, probes=False)
    assert beside(done, done, migrations(alone, done, done, (), ["totals"])) == ()


def test_a_named_view_is_moved_whatever_changed() -> None:
    stands = planned(sw.sum("seconds"))
    now = planned(sw.max("seconds"), sw.sum("seconds"))
    assert left(now, stands) == ()
    after = whole(now, stands, probes=False)
    (named,) = migrations(now, after, stands, (), ["totals"])
    assert (named.version, named.steps, named.reasons) == ("totals@2", STEPS, ())
    assert migrations(now, after, stands, (), ["counts"]) == ()
    back = planned(sw.sum("seconds"))
    assert migrations(back, whole(back, after, probes=False), after, (), ["totals"]) == ()
    with pytest.raises(UnknownName, match="total"):
        migrations(now, after, stands, (), ["total"])


def test_without_the_class_of_before_nothing_is_read_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = planned(sw.sum("seconds")).to_json()
    raise_it(monkeypatch, kept=False)
    with pytest.raises(
        DefinitionError, match="stored by semantic version 1, and this code"
    ) as refused:
        Deployment.from_json(text)
    assert "slicewise migrate with one that has both" in str(refused.value)


def test_an_aggregate_within_another_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = sw.sum("seconds", where="seconds > 3").spec()
    raise_it(monkeypatch)
    assert Behind.of(spec) == (Behind("sum", 1, 2),)
    assert type(from_spec(spec).core) is FirstSum
    assert Behind.of(sw.sum("seconds").spec()) == ()
    assert from_spec(sw.sum("seconds").spec()) == sw.sum("seconds")
