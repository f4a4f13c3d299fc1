"""Pictures of the platform's past, in the order in which somebody who looks after it asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean
from typing import Any

from slicewise.lifecycle.history import drift
from slicewise.lifecycle.history.buckets import Steps, Values, instant, middle, newest
from slicewise.lifecycle.history.entries import LATENESS, Entry
from slicewise.lifecycle.history.picture import Picture, largest, number, together
from slicewise.lifecycle.incidents import Incidents, span

MEBIBYTE = 1 << 20
MOST_DRIFTS = 12
"""Most features whose histograms are drawn: those that drifted most."""
_WATCH = "The watch of ingest_stream writes them every minute: is that DAG on? slicewise status"
_ARCHIVING = "compactions, backfills, checks and training sets"
_Points = dict[str, list[tuple[int, float | None]]]


@dataclass(frozen=True)
class Past:
    """Entries of a window. incidents: those that are open."""

    entries: Sequence[Entry]
    steps: Steps
    incidents: Incidents = ()
    earlier: Sequence[Entry] = ()
    """Runs of the check before the window, as far back as a reference may lie."""

    def jobs(self, name: str) -> list[Entry]:
        """Runs of a job."""
        return self._by_job.get(name, [])

    def kind(self, name: str) -> list[Entry]:
        """Entries of a kind."""
        return self._by_kind.get(name, [])

    @cached_property
    def _by_job(self) -> dict[str, list[Entry]]:
        return _grouped(self.entries, "job")

    @cached_property
    def _by_kind(self) -> dict[str, list[Entry]]:
        return _grouped(self.entries, "kind")


def _grouped(entries: Iterable[Entry], by: str) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(str(entry.get(by)), []).append(entry)
    return groups


def pictures(past: Past) -> tuple[Picture, ...]:
    """All pictures but those of single features."""
    return (
        *_mismatches(past),
        *_freshness(past),
        _lag(past),
        _late(past),
        _volume(past),
        _store(past),
        _memory(past),
        _compactions(past),
        *_alerts(past),
        _nulls(past),
        *_drift(past),
    )


def _mismatches(past: Past) -> tuple[Picture, ...]:
    checks = [check for check in past.jobs("check") if check.get("values")]
    views: dict[str, list[tuple[int, int, int]]] = {}
    worst_of: dict[int, tuple[float, dict[str, float]]] = {}
    named_causes: set[str] = set()
    values = wrong = 0
    for check in checks:
        at_us, total = check["at_us"], int(check["values"])
        values, wrong = values + total, wrong + int(check.get("mismatches", 0))
        shares: Counter[str] = Counter()
        for view, figures in check.get("views", {}).items():
            off = sum(figures["causes"].values())
            views.setdefault(view, []).append((at_us, off, figures["values"]))
            shares.update(figures["causes"])
        named_causes |= shares.keys()
        # of a step the causes of its worst check: those of two checks are no sum that any had
        step = past.steps.index(at_us)
        share = 1e6 * shares.total() / total
        if share >= worst_of.get(step, (0.0, {}))[0]:
            worst_of[step] = (share, {c: 1e6 * n / total for c, n in shares.items()})
    by_view = {
        view: past.steps.joined([(at, 1e6 * off / of) for at, off, of in runs if of], max)
        for view, runs in sorted(views.items())
    }
    if named_causes:
        by_cause = together(
            {
                cause: tuple(
                    worst_of[i][1].get(cause, 0.0) if i in worst_of else None
                    for i in range(past.steps.count)
                )
                for cause in sorted(named_causes)
            }
        )
    elif checks:
        by_cause = {"no difference": past.steps.joined([(c["at_us"], 0.0) for c in checks], max)}
    else:
        by_cause = {}
    share = 1e6 * wrong / values if values else 0.0
    red = sum(check.get("outcome") == "red" for check in checks)
    every = (
        f"{_times(len(checks), 'check')} compared {values:,} values: {wrong:,} differed, "
        f"{number(share)} per million; {red} of them red."
    )
    unmade = sum(check.get("outcome") == "not_made" for check in past.jobs("check"))
    if unmade:
        every += f" {_times(unmade, 'check')} could not be made."
    worst = largest(by_view, 1)
    most = max((v for of in worst.values() for v in of if v is not None), default=0.0)
    peak = f" The most of a view was {number(most)}, of {next(iter(worst), '')}." if most else ""
    counted = Counter(
        {
            cause: sum(
                figures["causes"].get(cause, 0)
                for check in checks
                for figures in check.get("views", {}).values()
            )
            for cause in named_causes
        }
    )
    named = ", ".join(f"{cause} {count:,}" for cause, count in counted.most_common())
    why = f" By cause: {named}." if named else " No cause had any."
    empty = (
        "No check has compared anything in this time. A check follows each compaction; "
        "trigger check_consistency to make one now."
    )
    unit = "differing values per million"
    return (
        _over_time(past, "mismatches-by-view", "Mismatches by view", unit, by_view, every + peak, empty),
        _over_time(
            past, "mismatches-by-cause", "Mismatches by cause", unit, by_cause, every + why, empty,
            shape="stacked",
        ),
    )  # fmt: skip


def _freshness(past: Past) -> tuple[Picture, ...]:
    minutes = [minute for minute in past.kind("minute") if "probes" in minute]
    seen = [m for m in minutes if m["probes"].get("p99_ms") is not None]
    series = {
        "p50, middle of the step": past.steps.joined(
            ((m["at_us"], m["probes"].get("p50_ms")) for m in seen), middle
        ),
        "p99, worst of the step": past.steps.joined(
            ((m["at_us"], m["probes"]["p99_ms"]) for m in seen), max
        ),
    }
    worst = max((m["probes"]["p99_ms"] for m in seen), default=0.0)
    usual = middle([m["probes"]["p50_ms"] for m in seen]) if seen else 0.0
    lost = sum(bool(minute["probes"].get("lost")) for minute in minutes)
    text = (
        f"In {_times(len(seen), 'minute')} probes were in an answer after {number(usual)} ms as a "
        f"rule, and the slowest minute's p99 was {number(worst)} ms. "
        f"{_times(lost, 'minute')} had lost probes."
    )
    empty = f"No probe was seen in this time. {_WATCH}"
    return (
        _over_time(
            past, "freshness", "Freshness, event to answer", "ms", series, text, empty, "log"
        ),
    )


def _lag(past: Past) -> Picture:
    points: _Points = {}
    for minute in past.kind("minute"):
        for source, figures in minute.get("sources", {}).items():
            points.setdefault(source, []).append((minute["at_us"], figures["lag"]))
    series = {source: past.steps.joined(of, max) for source, of in sorted(points.items())}
    most = {source: max(value or 0 for _, value in of) for source, of in points.items()}
    named = ", ".join(f"{source} {number(value)}" for source, value in sorted(most.items())[:12])
    text = f"Most events that waited to be applied, by source: {named}."
    empty = f"No figures of a stream in this time. {_WATCH}"
    return _over_time(past, "lag", "Lag by source", "events waiting, most", series, text, empty)


def _late(past: Past) -> Picture:
    points, total = dict[str, list[tuple[int, float | None]]](), Counter[str]()
    came = 0
    for run in past.kind("job"):
        for figures in run.get("archived", {}).values():
            came += figures["events"]
            for name in LATENESS:
                count = figures.get("late", {}).get(name, 0)
                total[name] += count
                points.setdefault(name, []).append((run["at_us"], count))
    series = {name: past.steps.joined(points[name], sum) for name in LATENESS if name in points}
    late = sum(total.values())
    named = ", ".join(f"{name} {total[name]:,}" for name in LATENESS if total[name])
    text = f"{late:,} of {came:,} events that {_ARCHIVING} archived came after their hour was over"
    text += f": {named}." if named else "."
    return _over_time(
        past, "late", "Late events by lateness", "events", series, text, _no_events(), "stacked"
    )


def _volume(past: Past) -> Picture:
    points: _Points = {}
    total, bad = Counter[str](), 0
    for run in past.kind("job"):
        for source, figures in run.get("archived", {}).items():
            points.setdefault(source, []).append((run["at_us"], figures["events"]))
            total[source] += figures["events"]
            bad += figures.get("bad", 0)
    series = together({source: past.steps.joined(of, sum) for source, of in sorted(points.items())})
    named = ", ".join(f"{source} {count:,}" for source, count in total.most_common(12))
    text = f"{sum(total.values()):,} events were archived by {_ARCHIVING} ({named}), "
    text += f"{bad:,} of them bad records."
    return _over_time(
        past, "volume", "Volume by source", "events archived", series, text, _no_events(), "stacked"
    )


def _no_events() -> str:
    return (
        "No job has archived events in this time. compact_slices does so every hour: "
        "is that DAG on, and do events come?"
    )


def _store(past: Past) -> Picture:
    minutes = past.kind("minute")
    used = [(m["at_us"], m["used_bytes"] / MEBIBYTE) for m in minutes]
    limit = [(m["at_us"], m["limit_bytes"] / MEBIBYTE) for m in minutes if m["limit_bytes"]]
    series = {"used, most": past.steps.joined(used, max)}
    if limit:
        series["limit"] = past.steps.joined(limit, newest)
    last = minutes[-1] if minutes else {}
    text = (
        f"The store used {number(last.get('used_bytes', 0) / MEBIBYTE)} MiB for "
        f"{last.get('keys', 0):,} keys at {instant(last.get('at_us', 0))}, and used at most "
        f"{number(max((value for _, value in used), default=0.0))} MiB"
    )
    text += f", of {number(limit[-1][1])} MiB that it may." if limit else "; it has no limit."
    empty = f"No figures of the store in this time. {_WATCH}"
    return _over_time(past, "store", "Memory of the store", "MiB", series, text, empty)


def _memory(past: Past) -> Picture:
    points: _Points = {}
    last: Mapping[str, Any] = {}
    for sweep in past.jobs("sweep"):
        last = sweep.get("memory") or last
        for view, figures in sweep.get("memory", {}).items():
            points.setdefault(view, []).append((sweep["at_us"], figures["bytes"] / MEBIBYTE))
    series = together({view: past.steps.joined(of, newest) for view, of in sorted(points.items())})
    most = sorted(last.items(), key=lambda item: (-item[1]["bytes"], item[0]))[:12]
    named = ", ".join(
        f"{view} {number(of['bytes'] / MEBIBYTE)} MiB in {of['keys']:,} keys" for view, of in most
    )
    text = f"At the last sweep: {named}. Bytes are estimated by a sample of the keys."
    empty = (
        "No sweep has counted keys in this time. sweep_expired does so every six hours; "
        "trigger it to have figures now."
    )
    return _over_time(past, "memory", "Store memory by view", "MiB", series, text, empty, "stacked")


def _compactions(past: Past) -> Picture:
    runs = [run for run in past.jobs("compact") if run.get("took_ms") is not None]
    worked = [run for run in runs if run.get("outcome") != "clean"]
    points = [(run["at_us"], run["took_ms"] / 1000) for run in worked]
    took = sorted(value for _, value in points)
    series = {
        "middle of the step": past.steps.joined(points, middle),
        "longest": past.steps.joined(points, max),
    }
    failed = sum(not run["ok"] for run in past.jobs("compact"))
    text = (
        f"{_times(len(worked), 'compaction')} with work took {number(middle(took) if took else 0)}"
        f" s as a rule and at most {number(took[-1] if took else 0)} s; "
        f"{len(runs) - len(worked)} had nothing to do, {failed} failed."
    )
    empty = (
        "No compaction with work has ended in this time. compact_slices runs every hour: "
        "is that DAG on?"
    )
    return _over_time(past, "compactions", "Compaction times", "seconds", series, text, empty)


def _alerts(past: Past) -> tuple[Picture, ...]:
    over = past.kind("incident")
    opened = [(one["opened_us"], one["event"]) for one in over]
    opened += [(one.opened_us, one.alert.event) for one in past.incidents if one.is_open]
    points: _Points = {}
    for at_us, event in opened:
        if at_us >= past.steps.start_us:
            points.setdefault(event, []).append((at_us, 1.0))
    series = together({event: past.steps.joined(of, sum) for event, of in sorted(points.items())})
    count = sum(map(len, points.values()))
    still = sum(one.is_open for one in past.incidents)
    named = ", ".join(f"{event} {len(of)}" for event, of in sorted(points.items()))
    text = f"{_times(count, 'incident')} opened{f' ({named})' if named else ''}; {still} open now."
    none = "No incident opened in this time, and " + (
        f"{still} that opened before it {'is' if still == 1 else 'are'} open: slicewise alerts."
        if still
        else "none is open: nothing is to be done."
    )
    detect = [
        (one["opened_us"], (one["opened_us"] - one["began_us"]) / 60e6)
        for one in over
        if one.get("began_us")
    ]
    detect += [
        (one.opened_us, (one.opened_us - one.began_us) / 60e6)
        for one in past.incidents
        if one.is_open and one.began_us and one.opened_us >= past.steps.start_us
    ]
    recover = [(one["at_us"], (one["at_us"] - one["opened_us"]) / 60e6) for one in over]
    running = {
        "to detect (MTTD)": _running(past.steps, detect),
        "to recover (MTTR)": _running(past.steps, recover),
    }
    means = (
        f"{_times(len(recover), 'incident')} ended, after {_mean(recover)} on average (MTTR). "
        f"Of {len(detect)} the beginning was seen, {_mean(detect)} before anybody was paged (MTTD)."
    )
    ended = "No incident ended in this time, so that there is no mean of them."
    return (
        _over_time(
            past, "alerts", "Incidents opened", "incidents", series, text, none, "stacked"
        ),
        _over_time(
            past, "recovery", "Time to detect and to recover",
            "minutes, mean since the window's start", running, means, ended,
        ),
    )  # fmt: skip


def _nulls(past: Past) -> Picture:
    points: _Points = {}
    last: dict[str, float] = {}
    for check in past.jobs("check"):
        last = {} if check.get("distributions") else last
        for name, counts in check.get("distributions", {}).items():
            if counts[drift.VALUES]:
                last[name] = 100 * counts[drift.NULL] / counts[drift.VALUES]
                points.setdefault(name, []).append((check["at_us"], last[name]))
    series = {name: past.steps.joined(of, max) for name, of in sorted(points.items())}
    most = sorted(last.items(), key=lambda item: (-item[1], item[0]))[:6]
    named = ", ".join(f"{name} {number(share)} %" for name, share in most if share)
    text = f"Of {_times(len(last), 'feature')} at the last check, "
    text += f"those with most nulls: {named}." if named else "none had a null."
    return _over_time(
        past, "nulls", "Nulls by feature", "% of sampled values", series, text, _no_values()
    )


def _drift(past: Past) -> tuple[Picture, ...]:
    """The features that drifted most, each with its histogram of the last check and of its
    reference."""
    runs: dict[str, list[tuple[int, Mapping[str, int]]]] = {}
    for check in (*past.earlier, *past.jobs("check")):
        for name, counts in check.get("distributions", {}).items():
            if counts[drift.BINS]:
                runs.setdefault(name, []).append((check["at_us"], counts[drift.BINS]))
    # what no check of the window had is gone
    changes = {
        name: change
        for name, of in runs.items()
        if of[-1][0] >= past.steps.start_us and (change := drift.change(of)) is not None
    }
    index = {name: change.index for name, change in changes.items()}
    most = sorted(index, key=lambda name: (-index[name], name))[:MOST_DRIFTS]
    shown = [_histograms(i, name, index[name], changes[name]) for i, name in enumerate(most)]
    return tuple(shown) or (
        Picture("drift", "Drift by feature", "", "bars", (), {}, _one_check(), _one_check()),
    )


def _histograms(nth: int, name: str, index: float, change: drift.Change) -> Picture:
    before, after = change.before, change.after
    numbers = sorted({*map(int, before), *map(int, after)})
    hours = change.hours
    of = "the first check kept" if hours is None else f"{_times(hours, 'hour')} before"
    series = {
        title: tuple(100 * of.get(str(n), 0) / sum(of.values()) for n in numbers)
        for title, of in ((of, before), ("last check", after))
    }
    was, now = series[of], series["last check"]
    at = max(range(len(numbers)), key=lambda i: abs(now[i] - was[i]))
    verdict = "no drift" if index < 0.1 else "some drift" if index < 0.25 else "drift"
    text = (
        f"{name}: {verdict}, stability index {index:.2f} between the last check "
        f"({instant(change.after_us)}) and its reference ({instant(change.before_us)}, {of}). "
        f"The bin that moved most begins at {drift.bin_label(numbers[at])}: "
        f"{number(was[at])} % then, {number(now[at])} % now."
    )
    labels = tuple(drift.bin_label(n) for n in numbers)
    return Picture(
        f"drift-{nth}", f"Drift of {name}", "% of sampled values", "bars", labels, series, text,
        across="bins of values, each from its label on",
    )  # fmt: skip


def _one_check() -> str:
    return (
        "A feature needs two checks that kept its values, and one of them in this time. The check "
        "of 24 hours before the last is its reference, else that of an hour before: "
        "trigger check_consistency to make one now."
    )


def _no_values() -> str:
    return (
        "No check has kept values of features in this time. Each check that compares does; "
        "trigger check_consistency to make one now."
    )


def _running(steps: Steps, points: Iterable[tuple[int, float]]) -> Values:
    """Per step the mean of all up to its end; None before the first."""
    ordered = sorted(points)
    values: list[float | None] = []
    for i in range(steps.count):
        end_us = steps.start_us + (i + 1) * steps.length_us
        until = [value for at_us, value in ordered if at_us < end_us]
        values.append(mean(until) if until else None)
    return tuple(values)


def _mean(points: Sequence[tuple[int, float]]) -> str:
    return span(60 * mean(value for _, value in points)) if points else "no time"


def _over_time(
    past: Past,
    name: str,
    title: str,
    unit: str,
    series: Mapping[str, Values],
    text: str,
    empty: str,
    shape: Any = "line",
) -> Picture:
    drawn = largest(series)
    if len(drawn) < len(series):
        text += f" Drawn are the {len(drawn)} largest of {len(series)}."
    picture = Picture(name, title, unit, shape, past.steps.labels, drawn, text, empty)
    return (
        picture if picture.has_figures else Picture(name, title, unit, shape, (), {}, empty, empty)
    )


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
