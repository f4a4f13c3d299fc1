"""Figures of `make show-backtest` as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

A, B, HINDSIGHT = "delay", "delay_today", "delay_hindsight"


def page(shown: Mapping[str, Any]) -> str:
    """The machine, what was played, both models beside each other, and what hindsight promises."""
    report = shown["reports"][f"{B} arrival"]
    return "\n\n".join(
        (
            _played(shown, report),
            _beside(shown),
            _calibration(report),
            _slices(report),
            _hindsight(shown),
        )
    )


def _played(shown: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    facts, (median, p99) = shown["machine"], shown["late_ms"]
    load = " ".join(map(str, facts["load_1m_5m_15m"]))
    left = dict(report["left_out"])
    rest = ", ".join(f"{rows:,} {reason}" for reason, rows in left.items()) or "none"
    late = report["measures"]["values"]["rate"]
    noisy = " (NOISY)" if facts["noisy"] else ""
    lines = [
        (
            f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gib']} GiB; load at the "
            f"start {load}{noisy}; {shown['seconds']} s in all"
        ),
        "",
        (
            f"trained on  {shown['train_from']} to {shown['train_to']} of 2013: "
            f"{shown[f'trained_{B}']:,} flights, {shown[f'rate_{B}']:.1%} of them late"
        ),
        (
            f"answered    {shown['live_from']} to {shown['live_to']}: {shown['requests']:,} requests, "
            f"{shown['failed']:,} failed"
        ),
        (
            f"            scored {median:,.0f} ms after the scheduled instant (median), {p99:,.0f} ms "
            "(99th percentile)"
        ),
        f"taken       {shown['predictions']:,} predictions, {shown['labels']:,} labels",
        (
            f"measured    {report['measured']:,} of {report['requests']:,} logged answers, {late:.1%} "
            "of them late"
        ),
        f"left out    {rest}",
    ]
    return "\n".join(lines)


def _beside(shown: Mapping[str, Any]) -> str:
    lines = [("measure", f"B, {B}", f"A, {A}", "B less A")]
    for measure, sides in shown["intervals"].items():
        lines.append((measure, *(_interval(sides[side]) for side in (B, A, "difference"))))
    gain = shown["reports"][f"{B} arrival"]["gain"]
    within = gain["within"] or float("nan")
    verdict = (
        f"slicewise backtest: {gain['verdict']}, {gain['difference']:+.4f} ± {within:.4f} of "
        f"logarithmic loss, by {gain['entities']:,} entities"
    )
    return f"{_table(lines)}\n{verdict}"


def _calibration(report: Mapping[str, Any]) -> str:
    lines = [("scores from", "rows of B", "mean score", "late", "rows of A", "mean score", "late")]
    pairs = zip(
        report["measures"]["calibration"], report["measures_of_a"]["calibration"], strict=True
    )
    for b, a in pairs:
        if b["rows"] or a["rows"]:
            lines.append((f"{b['low']:.1f} to {b['high']:.1f}", *_bin(b), *_bin(a)))
    return f"calibration\n{_table(lines)}"


def _bin(one: Mapping[str, Any]) -> tuple[str, str, str]:
    if not one["rows"]:
        return "0", "", ""
    return f"{one['rows']:,}", f"{one['score']:.3f}", f"{one['rate']:.3f}"


def _slices(report: Mapping[str, Any]) -> str:
    slices = report["worse_slices"]
    if not slices:
        return f"{B} is worse in no slice"
    lines = [(f"{B} is worse for", "rows", "logarithmic loss", "±")]
    for one in slices[:8]:
        lines.append(
            (
                f"{one['column']} = {one['value']}",
                f"{one['rows']:,}",
                f"{one['difference']:+.4f}",
                f"{one['within']:.4f}",
            )
        )
    return _table(lines)


def _hindsight(shown: Mapping[str, Any]) -> str:
    lines: list[tuple[str, ...]] = [
        ("the same requests, by features of", "area", "log. loss", "Brier")
    ]
    rows: Sequence[tuple[str, str, str]] = (
        (f"{B} arrival", f"{B}: what was known", "measures"),
        (f"{B} event_time", f"{B}: all that is known now", "measures"),
        (f"{HINDSIGHT} event_time", f"{HINDSIGHT}: all that is known now", "measures"),
        (f"{HINDSIGHT} arrival", f"{HINDSIGHT}: what was known", "measures"),
    )
    for key, words, which in rows:
        values = shown["reports"][key][which]["values"]
        measures = (values[name] for name in ("auc", "log_loss", "brier"))
        lines.append((words, *(f"{value:.3f}" for value in measures)))
    return _table(lines)


def _interval(values: Sequence[float]) -> str:
    middle, low, high = values
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
