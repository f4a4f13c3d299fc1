"""Hours that a red check marked stay marked until a check is green, whoever fails in between."""

from __future__ import annotations

import json

import pytest

from slicewise.lifecycle.checking import closed
from slicewise.lifecycle.healing.record import AGAIN_US, MOST_ENTITIES, MOST_STEPS, Healing, Job
from slicewise.windows.durations import HOUR_US

NOW = 1_700_000_000_000_000
ANNA, BERT = json.dumps({"user": "anna"}), json.dumps({"user": "bert"})


def job(at_us: int) -> Job:
    return Job(at_us, f"report {at_us}", "check_consistency", f"run {at_us}")


def value(entity: str, view: str = "plays") -> dict[str, str]:
    return {"view": view, "feature": "n", "entity": entity, "online": "3", "offline": "2"}


def red(healing: Healing, at_us: int, since: int, until: int, *entities: str) -> Healing:
    values = [value(e) for e in entities]
    return healing.red(job(at_us), {"plays": since}, until, values, began_us=at_us - 1)


def marked(healing: Healing, view: str = "plays") -> list[int]:
    """Hours of a view that are marked."""
    mark = healing.mark(view)
    return [] if mark is None else [hour for hour in range(12) if mark.includes(hour)]


def again(healing: Healing) -> Healing:
    """The record as the store keeps it."""
    return Healing.of([healing.text()])


def test_a_red_check_marks_its_hours_and_what_differed_is_compared_again() -> None:
    healing = again(red(Healing(), 10, 5, 9, ANNA))
    assert marked(healing) == [5, 6, 7, 8, 9]
    assert healing.compared_again() == {"plays": [{"user": "anna"}]}
    assert marked(healing, "other") == []


def test_a_later_red_check_widens_the_mark_and_keeps_its_entities() -> None:
    healing = again(red(red(Healing(), 10, 5, 9, ANNA), 20, 7, 10, BERT))
    mark = healing.mark("plays")
    assert mark is not None
    assert (mark.since, mark.until, set(mark.entities)) == (5, 10, {ANNA, BERT})


def test_a_run_that_recomputes_some_hours_leaves_the_others_to_the_next() -> None:
    healing = red(Healing(), 10, 5, 9, ANNA)
    mark = healing.mark("plays")
    assert mark is not None
    due, whole = mark.due(range(12), most=2)
    assert (set(due), whole) == ({5, 6}, False)
    healing = again(healing.recomputed(job(20), {"plays": due}, set()))
    mark = healing.mark("plays")
    assert mark is not None
    assert mark.due(range(12)) == (frozenset({7, 8, 9}), True)


def test_hours_that_are_recomputed_are_due_no_more_and_marked_until_a_check_is_green() -> None:
    healing = red(Healing(), 10, 5, 9, ANNA)
    healing = again(healing.recomputed(job(20), {"plays": {5, 6, 7, 8, 9}}, {"plays"}))
    mark = healing.mark("plays")
    assert mark is not None
    assert mark.due(range(12)) == (frozenset(), True)
    assert 7 in marked(healing)
    green = healing.green(job(40), {"plays"}, 100, began_us=30)
    assert marked(green) == []


def test_what_is_marked_while_hours_are_recomputed_is_still_due() -> None:
    healing = red(red(Healing(), 10, 5, 9, ANNA), 25, 4, 9, BERT)
    healing = healing.recomputed(job(20), {"plays": {5, 6, 7, 8, 9}}, {"plays"})
    mark = healing.mark("plays")
    assert mark is not None
    assert mark.due(range(12))[0] == {4, 5, 6, 7, 8, 9}


def test_what_is_marked_while_a_check_runs_outlives_it() -> None:
    healing = red(Healing(), 35, 5, 9, ANNA).green(job(40), {"plays"}, 100, began_us=30)
    assert 9 in marked(healing)


def test_a_green_check_of_one_view_leaves_the_mark_of_another() -> None:
    healing = red(Healing(), 10, 5, 9, ANNA)
    healing = healing.red(job(11), {"other": 8}, 9, [value(ANNA, "other")], began_us=10)
    healing = healing.green(job(20), {"plays"}, 100, began_us=15)
    assert healing.views == ("other",)
    assert not healing.stories[-1].over_us


def test_a_story_goes_from_the_first_difference_to_the_check_that_is_green() -> None:
    healing = red(Healing(), 10, 5, 9, ANNA)
    healing = healing.recomputed(job(20), {"plays": {5, 6}}, {"plays"})
    healing = again(healing.green(job(30), {"plays"}, 100, began_us=25))
    (story,) = healing.stories
    assert [step.kind for step in story.steps] == ["red", "recomputed", "green"]
    assert [step.run for step in story.steps] == ["run 10", "run 20", "run 30"]
    assert story.steps[1].hours == {"plays": [5, 6]}
    assert story.over_us == 30
    # what differs later is another story
    assert [one.over_us for one in red(healing, 50, 8, 9, BERT).stories] == [30, 0]


def test_a_green_check_where_nothing_differed_is_no_story() -> None:
    assert Healing().green(job(10), {"plays"}, 100, began_us=5).stories == ()


def test_a_long_story_keeps_its_beginning_and_its_end() -> None:
    healing = Healing()
    for at in range(1, 100):
        healing = red(healing, at, 5, 9, ANNA)
    (story,) = healing.stories
    assert len(story.steps) == MOST_STEPS
    assert (story.steps[0].at_us, story.steps[-1].at_us) == (1, 99)


def test_what_is_only_suspected_closes_no_gate() -> None:
    healing = again(Healing().suspected(job(10), {"plays": [ANNA]}))
    assert closed(None, healing) == ""
    assert healing.compared_again() == {"plays": [{"user": "anna"}]}
    assert healing.green(job(20), {"plays"}, 9, began_us=15).views == ()


def test_what_is_suspected_while_a_check_runs_is_for_the_next_one() -> None:
    healing = Healing().suspected(job(10), {"plays": [ANNA]})
    healing = again(healing.suspected(job(18), {"plays": [BERT]}))
    green = again(healing.green(job(20), {"plays"}, 9, began_us=15))
    assert green.compared_again() == {"plays": [{"user": "bert"}]}
    assert not green.stories[-1].over_us
    wrong = healing.red(job(20), {"plays": 5}, 9, [value(ANNA)], began_us=15)
    assert again(wrong).suspects == {"plays": (BERT,)}
    assert green.green(job(30), {"plays"}, 9, began_us=25).views == ()


def test_all_that_a_green_check_cleared_is_not_suspected_again_within_the_hour() -> None:
    many = {"plays": [json.dumps({"user": f"user {n}"}) for n in range(MOST_ENTITIES)]}
    healing = Healing().suspected(job(10), many, [value(text) for text in many["plays"]])
    healing = again(healing.green(job(20), {"plays"}, 9, began_us=15))
    assert healing.new_suspects(many, now_us=30) == {}
    assert healing.new_suspects(many | {"plays": [ANNA]}, now_us=30) == {"plays": (ANNA,)}
    assert healing.new_suspects(many, now_us=30 + HOUR_US).keys() == {"plays"}


def test_the_gate_is_closed_while_hours_are_marked_whatever_the_last_check_was() -> None:
    green = json.dumps({"report": {"result": "green"}})
    healing = red(Healing(), 10, 5, 9, ANNA)
    assert "plays" in closed(green, healing)
    assert closed(green, healing.green(job(20), {"plays"}, 9, began_us=15)) == ""


def test_of_several_nodes_the_record_that_changed_last_counts() -> None:
    first = red(Healing(), 10, 5, 9, ANNA)
    assert Healing.of([first.text(), red(first, 20, 5, 10, BERT).text()]).marked[0].until == 10


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"marked": [{"view": "plays"}]}'])
def test_a_text_that_is_no_record_is_an_empty_one(text: str | None) -> None:
    assert Healing.of([text]) == Healing()


def test_what_is_suspected_is_judged_also_where_the_first_trigger_failed() -> None:
    differs = {"plays": [ANNA]}
    assert Healing().new_suspects(differs, NOW) == {"plays": (ANNA,)}
    kept = Healing().suspected(job(NOW), differs, [value(ANNA)])
    # Airflow did not answer the POST: the task is tried again, and looks every five minutes
    for minutes in (1, 5, 10, 15, 30, 55):
        later = NOW + minutes * 60 * 1_000_000
        suspects = kept.new_suspects(differs, later)
        is_due = bool(suspects) or kept.may_be_over({"plays": []}, later)
        is_due |= kept.is_waiting(later)
        if is_due:
            return
    raise AssertionError("no look starts the check")


def test_a_long_story_raises_nothing() -> None:
    kept = Healing().suspected(job(NOW), {"plays": [ANNA]}, [value(ANNA)])
    kept = kept.red(job(NOW + 1), {"plays": 5}, 9, [value(ANNA)], NOW)
    for n in range(31):  # an owner's other entities, while the check cannot be made
        bert = json.dumps({"user": f"bert{n}"})
        kept = kept.suspected(job(NOW + 2 + n), {"plays": [bert]}, [])
    assert kept.may_be_over({"plays": [ANNA]}, NOW + 2 * AGAIN_US)


def test_what_was_red_is_healed_by_a_green_check_of_it_alone() -> None:
    both = red(Healing(), 10, 3, 5, ANNA).red(job(10), {"songs": 3}, 5, [value(BERT, "songs")], 9)
    one = both.green(job(20), {"plays"}, 7, began_us=15)
    assert not one.healed_since(11)
    whole = one.green(job(30), {"songs"}, 7, began_us=25)
    assert whole.healed_since(11)
    assert not whole.healed_since(31), "what came later was red by something else"
