"""Rows for people: columns as wide as what stands in them, and no wider than a screen can bear."""

from __future__ import annotations

from collections.abc import Sequence

WIDEST = 60


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Header and rows, columns two spaces apart; the last column is not filled up."""
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    for line in (header, *rows):
        print(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )


def shortened(text: str) -> str:
    """At most WIDEST characters of a value."""
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
