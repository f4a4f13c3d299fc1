"""A trained version goes live by a person's word, or by the rule that its model states.

A rule needs a backtest without doubt: enough rows, no leak, no slice that is much worse. A person
is given the same objections to decide by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

APPROVAL, BETTER, NO_WORSE = "approval", "better", "no worse"
MUCH = 0.1
"""Share of a slice's loss from which on it is much worse, by the lower end of its interval."""
EARLY = 0.01
"""Share of the rows whose labels may come before their answers."""
Action = Literal["promote", "ask", "leave"]
_ALLOWED: Mapping[str, tuple[str, ...]] = {
    BETTER: ("better",),
    NO_WORSE: ("better", "no difference"),
}
"""Rule -> verdicts by which it promotes."""


@dataclass(frozen=True)
class Candidate:
    """A version that was trained, and the live one. live: empty where none is; measures: of its own
    training."""

    version: str
    live: str
    measures: Mapping[str, float | None]

    @property
    def is_measured(self) -> bool:
        """Tells whether its training measured it on rows that it was not trained on."""
        return any(value is not None for value in self.measures.values())


@dataclass(frozen=True)
class Decision:
    """A decision and its reasons, in words."""

    action: Action
    reasons: tuple[str, ...]

    @property
    def words(self) -> str:
        """The decision in a sentence."""
        done = {
            "promote": "It goes live",
            "ask": "A person decides",
            "leave": "It does not go live",
        }
        return f"{done[self.action]}: {'; '.join(self.reasons)}."


def decided(
    rule: str, candidate: Candidate, report: Mapping[str, Any] | None, least: int
) -> Decision:
    """Decides about a candidate. report: of its backtest beside the live version; None where there
    was none. least: fewest measured rows that a rule relies on."""
    if candidate.version == candidate.live:
        return Decision("leave", (f"{candidate.version} is live already",))
    if not candidate.live:
        return _of_first(rule, candidate)
    seen = objections(report, least)
    gain = (report or {}).get("gain") or {}
    verdict = str(gain.get("verdict", ""))
    outcome = (f"the backtest says {verdict!r} beside {candidate.live}",) if verdict else ()
    if rule not in _ALLOWED:
        return Decision("ask", (*outcome, *seen, f"the rule of its model is {rule!r}"))
    if seen:
        return Decision("leave", (*outcome, *seen))
    if verdict not in _ALLOWED[rule]:
        return Decision("leave", (*outcome, f"the rule of its model is {rule!r}"))
    return Decision("promote", (*outcome, f"the rule of its model is {rule!r}"))


def _of_first(rule: str, candidate: Candidate) -> Decision:
    first = "it is the first: no version is live"
    if rule not in _ALLOWED:
        return Decision("ask", (first, f"the rule of its model is {rule!r}"))
    if not candidate.is_measured:
        return Decision("ask", (first, "its training could not measure it"))
    return Decision("promote", (first, "its training measured it"))


def objections(report: Mapping[str, Any] | None, least: int) -> tuple[str, ...]:
    """Reasons why a backtest is not relied on, in words; none where it is."""
    if report is None:
        return ("there is no backtest",)
    seen, measured = [], int(report.get("measured") or 0)
    if measured < least:
        seen.append(f"{measured:,} rows are measured, and {least:,} are wanted")
    elif not (gain := report.get("gain")):
        seen.append("the backtest compares nothing")
    elif "within" in gain and gain["within"] is None:
        seen.append("all rows are of one entity, whose difference may be chance")
    if leaks := report.get("leaks"):
        names = ", ".join(str(leak["feature"]) for leak in leaks[:5])
        seen.append(f"it looks like a leak: {names}")
    early = int(report.get("labels_before_answers") or 0)
    if early > EARLY * measured:
        seen.append(f"{early:,} labels came before their answers")
    worse = [one for one in report.get("worse_slices") or () if _is_much(one)]
    if worse:
        names = ", ".join(f"{one['column']} = {one['value']}" for one in worse[:5])
        seen.append(f"it is much worse for {names}")
    return tuple(seen)


def _is_much(one: Mapping[str, Any]) -> bool:
    least = float(one["difference"]) - float(one["within"] or 0.0)
    return least > MUCH * float(one["loss_a"])
