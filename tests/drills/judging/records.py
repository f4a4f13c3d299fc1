"""Results of a drill are a line of a file; docs/faults.md shows what they come to, and no person
writes there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

BEGIN = "<!-- drills: written by python -m tests.drills --table -->"
END = "<!-- end of drills -->"
_COLUMNS = (
    "fault",
    "invariants",
    "seeds",
    "kills",
    "answers",
    "refused",
    "values compared",
    "mismatches",
    "did not end",
    "s to detect",
    "s to recover",
    "last played",
)


@dataclass(frozen=True)
class Part:
    """One of several defects that a drill planted at once."""

    what: str
    cause: str
    """The cause that the check gave."""
    detect_s: float
    recover_s: float


@dataclass(frozen=True)
class Drilled:
    """One drill, played once."""

    drill: str
    fault: str
    invariants: tuple[str, ...]
    seed: int
    when: str
    """UTC, to the second."""
    events: int
    """Events of the log, while it was played."""
    kills: int
    answers: int
    refused: int
    """Questions that were answered with 503."""
    compared: int
    """Values, each with the oracle and with training."""
    wrong: tuple[str, ...]
    """Every mismatch."""
    detect_s: float | None
    """From the fault until the platform said so, the longest; None: it has nothing to say of it."""
    recover_s: float | None
    """From the end of the fault until all ran, all was applied and a new event was in an answer,
    the longest."""
    broke: str | None = None
    """Reason for which the drill did not come to its end."""
    parts: tuple[Part, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.wrong and self.broke is None

    def __str__(self) -> str:
        return (
            f"{self.drill}: seed {self.seed}: {self.events} events, {self.kills} kills, "
            f"{self.answers} answers, "
            f"{self.refused} refused, {self.compared} values compared, {len(self.wrong)} differ; "
            f"told after {_seconds(self.detect_s)} s, whole after {_seconds(self.recover_s)} s"
            + ("" if self.broke is None else f"; it did not end: {self.broke}")
        )


def keep(file: Path, drilled: Drilled) -> None:
    """One more line, in place of the one of the same drill and seed: what failed is played again by
    its own seed. All of the file or nothing is written, so that no end of a run takes a line with
    it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    before = read(file) if file.exists() else []
    kept = [drill for drill in before if (drill.drill, drill.seed) != (drilled.drill, drilled.seed)]
    part = file.with_suffix(".part")
    lines = (json.dumps(_line_of(drill), ensure_ascii=False) + "\n" for drill in (*kept, drilled))
    part.write_text("".join(lines), encoding="utf-8")
    part.replace(file)


def _line_of(drilled: Drilled) -> dict[str, Any]:
    return {name: value for name, value in asdict(drilled).items() if name != "parts" or value}


def read(file: Path) -> list[Drilled]:
    """All lines of a file, the oldest first."""
    return [
        _drilled(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line
    ]


def _drilled(line: dict[str, Any]) -> Drilled:
    drilled = Drilled(**line)
    parts = tuple(Part(**part) for part in line.get("parts", ()))
    return replace(
        drilled, invariants=tuple(drilled.invariants), wrong=tuple(drilled.wrong), parts=parts
    )


def table(drilled: Sequence[Drilled], drills: Sequence[str]) -> str:
    """A row for each of these drills that was played, over all its seeds; what it says of itself,
    it said last. Below it one for each defect that it planted."""
    played = [
        some for name in drills if (some := [drill for drill in drilled if drill.drill == name])
    ]
    rows = (row for some in played for row in (_row(some), *_rows_of_parts(some)))
    return "\n".join((_line(_COLUMNS), "|" + "---|" * len(_COLUMNS), *rows))


def _row(played: Sequence[Drilled]) -> str:
    last = max(played, key=lambda drill: drill.when)
    cells = (
        f"{last.fault} (`{last.drill}`)",
        ", ".join(last.invariants),
        ", ".join(dict.fromkeys(str(drill.seed) for drill in played)),
        f"{sum(drill.kills for drill in played):,}",
        f"{sum(drill.answers for drill in played):,}",
        f"{sum(drill.refused for drill in played):,}",
        f"{sum(drill.compared for drill in played):,}",
        f"{sum(len(drill.wrong) for drill in played):,}",
        f"{sum(drill.broke is not None for drill in played)} of {len(played)}",
        _seconds(_most(drill.detect_s for drill in played)),
        _seconds(_most(drill.recover_s for drill in played)),
        last.when[:10],
    )
    return _line(cells)


def _rows_of_parts(played: Sequence[Drilled]) -> Iterator[str]:
    """The longest of each over all plays."""
    parts: dict[tuple[str, str], list[Part]] = {}
    for part in (part for drill in played for part in drill.parts):
        parts.setdefault((part.what, part.cause), []).append(part)
    for (what, cause), some in parts.items():
        seconds = (
            _seconds(max(drill.detect_s for drill in some)),
            _seconds(max(drill.recover_s for drill in some)),
        )
        cells = dict.fromkeys(_COLUMNS, "") | {"fault": f"– {what}: told as `{cause}`"}
        yield _line([*(cells | {"s to detect": seconds[0], "s to recover": seconds[1]}).values()])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _most(seconds: Iterable[float | None]) -> float | None:
    return max((duration for duration in seconds if duration is not None), default=None)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def written(page: str, drilled: Sequence[Drilled], drills: Sequence[str]) -> str:
    """The page with the table of these drills anew, between its marks. ValueError without marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} … {END}")
    shown = [drill for drill in drilled if drill.drill in drills]
    summary = _summary(
        shown, [name for name in drills if name not in {drill.drill for drill in shown}]
    )
    return f"{before}{BEGIN}\n{summary}\n\n{table(shown, drills)}\n{END}{after}"


def _summary(shown: Sequence[Drilled], missing: Sequence[str]) -> str:
    """Tells when the rows were played, what they come to, and which drills have none."""
    days = sorted({drill.when[:10] for drill in shown})
    over = " to ".join(dict.fromkeys((days[0], days[-1])))
    total = sum(drill.compared for drill in shown)
    wrong, broke = (
        sum(len(drill.wrong) for drill in shown),
        sum(drill.broke is not None for drill in shown),
    )
    summary = (
        f"{len(shown)} plays, {total:,} values compared, {wrong:,} mismatches, {broke} did not "
        f"end; {over}."
    )
    return summary + (
        f"\nNot recorded: {', '.join(f'`{name}`' for name in missing)}." if missing else ""
    )
