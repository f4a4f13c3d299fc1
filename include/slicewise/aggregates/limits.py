"""A parameter of an aggregate lies within its limits, or is refused with them."""

from __future__ import annotations

from slicewise.errors import DefinitionError

COUNTABLE = (
    "an integer, decimal, boolean, text, timestamp(us) or date column; doubles are no categories"
)


def check_whole(name: str, value: object, least: int, most: int, where: str) -> None:
    """Refuse what is no integer from least to most; truth values are none."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise DefinitionError(
            f"{name} is {value!r}",
            where=where,
            expected=f"an integer from {least} to {most}",
            next_step="change the parameter",
        )


def check_share(name: str, value: object, least: float, most: float, where: str) -> None:
    """Refuse what is no number from least to most."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise DefinitionError(
            f"{name} is {value!r}",
            where=where,
            expected=f"a share from {least} to {most}",
            next_step="change the parameter",
        )
