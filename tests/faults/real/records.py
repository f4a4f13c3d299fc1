"""What each drill found is a line of a file; docs/faults.md shows what they come to, and no person writes there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

BEGIN = "<!-- drills: written by python -m tests.faults.real --table -->"
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
    "s to detect",
    "s to recover",
)


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
    """Of the log, while it was played."""
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
    """From the end of the fault until all ran, all was applied and a new event was in an answer, the longest."""
    broke: str | None = None
    """Why the drill did not come to its end."""

    @property
    def passed(self) -> bool:
        return not self.wrong and self.broke is None

    def __str__(self) -> str:
        return (
            f"{self.drill}: seed {self.seed}: {self.events} events, {self.kills} kills, {self.answers} answers, "
            f"{self.refused} refused, {self.compared} values compared, {len(self.wrong)} differ; "
            f"told after {_seconds(self.detect_s)} s, whole after {_seconds(self.recover_s)} s"
            + ("" if self.broke is None else f"; it did not end: {self.broke}")
        )


def append(file: Path, drilled: Drilled) -> None:
    """One more line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(drilled), ensure_ascii=False) + "\n")


def read(file: Path) -> list[Drilled]:
    """All lines of a file, the oldest first."""
    return [_drilled(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines() if line]


def _drilled(line: dict[str, Any]) -> Drilled:
    found = Drilled(**line)
    return replace(found, invariants=tuple(found.invariants), wrong=tuple(found.wrong))


def table(found: Iterable[Drilled]) -> str:
    """A row for each fault, in the order in which they were played first."""
    by_drill: dict[str, list[Drilled]] = {}
    for each in found:
        by_drill.setdefault(each.drill, []).append(each)
    return "\n".join((_line(_COLUMNS), "|" + "---|" * len(_COLUMNS), *map(_row, by_drill.values())))


def _row(played: Sequence[Drilled]) -> str:
    first = played[-1]
    mismatches = sum(len(each.wrong) for each in played)
    broke = sum(each.broke is not None for each in played)
    cells = (
        f"{first.fault} (`{first.drill}`)",
        ", ".join(first.invariants),
        ", ".join(dict.fromkeys(str(each.seed) for each in played)),
        f"{sum(each.kills for each in played):,}",
        f"{sum(each.answers for each in played):,}",
        f"{sum(each.refused for each in played):,}",
        f"{sum(each.compared for each in played):,}",
        f"{mismatches:,}" + (f"; {broke} of {len(played)} did not end" if broke else ""),
        _seconds(_most(each.detect_s for each in played)),
        _seconds(_most(each.recover_s for each in played)),
    )
    return _line(cells)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _most(seconds: Iterable[float | None]) -> float | None:
    return max((each for each in seconds if each is not None), default=None)


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def written(page: str, found: Sequence[Drilled]) -> str:
    """The page with the table anew, between its marks, and when its lines were written. ValueError without marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} … {END}")
    days = sorted({each.when[:10] for each in found})
    over = " to ".join(dict.fromkeys((days[0], days[-1])))
    total = sum(each.compared for each in found)
    said = f"{len(found)} drills, {total:,} values compared, {over}."
    return f"{before}{BEGIN}\n{said}\n\n{table(found)}\n{END}{after}"
