"""Rules, and the histories that need them: what docs/simulation.md shows."""

from __future__ import annotations

import multiprocessing
from typing import NamedTuple

from tests.simulation.catalog import ENTRIES, rules

MOST = 800
HEAD = ("part", "rule", "without", "world", "goes wrong")


class Row(NamedTuple):
    section: str
    rule: str
    mutant: str
    world: str
    where: str


def table(jobs: int) -> str:
    """By part of the protocol. Plays a history for every rule."""
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        rows = pool.starmap(row, [(entry.name, rule) for entry, rule in rules()], chunksize=1)
    cells = [HEAD, *sorted(rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(text, widths, strict=True)).rstrip()
        for text in cells
    )


def row(world: str, rule: str) -> Row:
    entry = ENTRIES[world]
    mutant, where = entry.mutants[rule], "none found"
    if mutant.met:
        history = entry.search(rule, MOST)
        if history is not None:
            where = f"seed {history.seed}, move {history.story[-1].move}"
    else:
        stops = entry.meet(rule)
        if stops is not None:
            where = f"{stops[0]}: {stops[1].stops}"
    return Row(mutant.section, mutant.rule, rule, world, where)
