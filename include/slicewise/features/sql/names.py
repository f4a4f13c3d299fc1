"""A name of SQL stands for the aggregate of the same meaning, or is refused with its reason."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slicewise import aggregates, hints
from slicewise.aggregates import Aggregate

_HELPERS = {"canonicalise", "from_spec"}


@dataclass(frozen=True)
class Spelling:
    """Spelling of a function of the field by ours: parameters in SQL's order, and what else is
    given."""

    function: str
    order: tuple[str, ...] = ("column",)
    given: Mapping[str, Any] = field(default_factory=dict)
    several: str | None = None
    """A parameter that is a list here, and so is the answer."""


def _names(spelling: Spelling, *names: str) -> dict[str, Spelling]:
    return dict.fromkeys(names, spelling)


_SAMPLE, _POPULATION = {"population": False}, {"population": True}
_PAIR = ("x", "y")
SPELLINGS: Mapping[str, Spelling] = {
    **_names(Spelling("mean"), "avg"),
    **_names(Spelling("bool_and"), "every", "logical_and", "booland_agg"),
    **_names(Spelling("bool_or"), "some", "any", "logical_or", "boolor_agg"),
    **_names(Spelling("argmax", ("payload", "by")), "max_by", "arg_max"),
    **_names(Spelling("argmin", ("payload", "by")), "min_by", "arg_min"),
    **_names(Spelling("distinct_count"), "approx_count_distinct", "approx_distinct"),
    **_names(Spelling("variance", given=_SAMPLE), "var_samp", "variance"),
    **_names(Spelling("variance", given=_POPULATION), "var_pop"),
    **_names(Spelling("stddev", given=_SAMPLE), "stddev_samp", "stddev"),
    **_names(Spelling("stddev", given=_POPULATION), "stddev_pop"),
    **_names(Spelling("covariance", _PAIR, _SAMPLE), "covar_samp"),
    **_names(Spelling("covariance", _PAIR, _POPULATION), "covar_pop"),
    **_names(Spelling("correlation", _PAIR), "corr"),
    **_names(Spelling("linear_trend", ("column", "over"), {"output": "slope"}), "regr_slope"),
    **_names(
        Spelling("linear_trend", ("column", "over"), {"output": "intercept"}), "regr_intercept"
    ),
    **_names(Spelling("linear_trend", ("column", "over"), {"output": "r2"}), "regr_r2"),
    **_names(Spelling("first"), "first_value"),
    **_names(Spelling("last"), "last_value"),
    **_names(
        Spelling("quantiles", ("column", "q"), several="q"),
        "approx_percentile",
        "percentile_approx",
        "approx_quantile",
    ),
}
_ALL_VALUES = "it keeps every value, so that its partial has no bound"
_OF_ROWS = "it numbers or looks at rows of a result, and a feature has none"
REASONS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("array_agg", "list", "collect_list", "string_agg", "group_concat", "listagg"),
        (_ALL_VALUES, "last_k(column, k => 10) keeps the newest"),
    ),
    **dict.fromkeys(
        ("median", "percentile", "percentile_cont", "percentile_disc", "quantile", "quantile_cont"),
        (_ALL_VALUES, "approx_percentile(column, ARRAY[0.5])"),
    ),
    **dict.fromkeys(
        (
            "row_number",
            "rank",
            "dense_rank",
            "percent_rank",
            "cume_dist",
            "ntile",
            "lag",
            "lead",
            "nth_value",
        ),
        (_OF_ROWS, "last_k(column, k => 2) answers the newest values"),
    ),
    "any_value": (
        "which value it gives depends on the order of work",
        "first(column) or last(column)",
    ),
    "mode": (
        "its partial has no bound",
        "top_k_frequent(column, k => 1) where this version has it",
    ),
}
BOUNDS = tuple(
    f"{window}_{end}"
    for window in ("tumble", "hop", "session")
    for end in ("start", "end", "rowtime")
)
OF_WINDOWS = ("SLICE", "TUMBLE", "HOP", "SESSION")
OF_NULLS = {"first_value", "last_value"}


def existing() -> dict[str, Callable[..., Aggregate]]:
    """The aggregates of this version by name."""
    functions = {
        name: getattr(aggregates, name) for name in aggregates.__all__ if name not in _HELPERS
    }
    return {name: made for name, made in functions.items() if inspect.isfunction(made)}


def function_names() -> list[str]:
    """Every name that can be called: our own, and the field's for what exists."""
    ours = existing()
    return sorted(
        {
            *ours,
            "count_if",
            *(name for name, spelling in SPELLINGS.items() if spelling.function in ours),
        }
    )


def expected_names() -> str:
    """The names that can be called, for messages."""
    return (
        "an aggregate of docs/reference/aggregates.md, or SQL's name of one, as "
        "docs/reference/sql.md lists them"
    )


def meant(name: str) -> str:
    """The function that a wrong name may mean: ours of another system's name, else the nearest
    names."""
    ours = re.search(r"sw\.(\w+)\(", hints.ATTRIBUTES.get(name, ""))
    if ours is not None and ours.group(1) in existing():
        return f"{name} is {ours.group(1)} here"
    close = hints.close_to(name, function_names())
    return f"did you mean {hints.either(close)}?" if close else "name one of those"


def kept_names() -> frozenset[str]:
    """Every name that SQL's parser must leave as it is written, in capitals."""
    ours = (name.upper() for name in (*function_names(), *SPELLINGS, *REASONS, *BOUNDS))
    return frozenset({*OF_WINDOWS, "COUNTIF", *ours})
