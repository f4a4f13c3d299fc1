"""A function of SQL becomes the aggregate of the same meaning, or is refused by its name with what exists.

Every aggregate can be called by its own name with its own parameters, as in `top_k(song, by => seconds, k => 5)`;
the field's names stand beside them where the meaning is the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from slicewise import aggregates
from slicewise.aggregates import Aggregate
from slicewise.errors import DefinitionError
from slicewise.features.names import listed, nearest
from slicewise.features.sql.rowlogic import RowLogic
from slicewise.features.sql.text import Span, SqlText, node_span

_HELPERS = {"canonicalise", "from_spec"}


@dataclass(frozen=True)
class Spelling:
    """How a function of the field is written with ours: parameters in SQL's order, and what else is given."""

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
        ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"),
        (_OF_ROWS, "last_k(column, k => 2) answers the newest values"),
    ),
    "any_value": ("which value it gives depends on the order of work", "first(column) or last(column)"),
    "mode": ("its partial has no bound", "top_k_frequent(column, k => 1) where this version has it"),
}
_BOUNDS = tuple(f"{window}_{end}" for window in ("tumble", "hop", "session") for end in ("start", "end", "rowtime"))
_NULLS_FIRST_LAST = {"first_value", "last_value"}


def existing() -> dict[str, Callable[..., Aggregate]]:
    """The aggregates of this version by name."""
    found = {name: getattr(aggregates, name) for name in aggregates.__all__ if name not in _HELPERS}
    return {name: made for name, made in found.items() if inspect.isfunction(made)}


def known_names() -> list[str]:
    """Every name that can be called: our own, and the field's for what exists."""
    ours = existing()
    return sorted({*ours, *(name for name, spelling in SPELLINGS.items() if spelling.function in ours)})


@dataclass(frozen=True)
class Call:
    """A function with its FILTER and whether IGNORE NULLS was said. span: of its name."""

    node: exp.Anonymous
    span: Span
    filter: exp.Expr | None = None
    ignore_nulls: bool = False

    @property
    def name(self) -> str:
        return str(self.node.this).lower()


@dataclass(frozen=True)
class Functions:
    """Makes aggregates of calls; row logic inside of them becomes computed columns."""

    sql: SqlText
    logic: RowLogic

    def aggregate(self, call: Call) -> Aggregate:
        """The aggregate of a call. Raises SqlRefused."""
        made, positional, named = self._arguments(call)
        if call.filter is not None:
            named |= self._where(call, made)
        used: set[str] = set()
        arguments = [self._value(node, call, used) for node in positional]
        keywords = {name: self._value(v, call, used) if isinstance(v, exp.Expr) else v for name, v in named.items()}
        signature = inspect.signature(made)
        for name, value in named.items():
            if name not in signature.parameters:
                at = (node_span(value) if isinstance(value, exp.Expr) else None) or call.span
                raise self.sql.refused(
                    f"{call.node.this} has no parameter {name!r}",
                    at,
                    f"{made.__name__}{_plain(signature)}",
                    nearest(name, signature.parameters),
                )
        try:
            signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise self.sql.refused(
                f"{call.node.this}: {error}", call.span, f"{made.__name__}{_plain(signature)}", "correct the arguments"
            ) from error
        try:
            aggregate = made(*arguments, **keywords)
        except DefinitionError as error:
            raise self.sql.refused(error.what, call.span, error.expected, error.next_step) from error
        except (TypeError, ValueError, AttributeError) as error:  # an argument of a kind that the function never had
            raise self.sql.refused(
                f"{call.node.this}: {error}", call.span, f"{made.__name__}{_plain(signature)}"
            ) from error
        texts = [n for n in columns_of(aggregate) if n not in used and n in self.logic.kinds]
        if texts:
            raise self.sql.refused(
                f"{texts[0]!r} is a column, written as text", call.span, "the column's name without quotes"
            )
        return aggregate

    # ---- which function
    def _arguments(self, call: Call) -> tuple[Callable[..., Aggregate], list[exp.Expr], dict[str, Any]]:
        name, ours = call.name, existing()
        positional, named = self._given(call)
        if name == "count":
            return self._count(call, positional, named)
        for node in positional:
            if isinstance(node, exp.Star):
                raise self.sql.refused(f"{name}(*)", node_span(node) or call.span, "a column; only COUNT takes *")
            if isinstance(node, exp.Distinct):
                raise self.sql.refused(
                    f"{name.upper()}(DISTINCT …) keeps every value, so that its partial has no bound",
                    node_span(node) or call.span,
                    "COUNT(DISTINCT column) is the one that exists",
                )
        if name in _NULLS_FIRST_LAST and not call.ignore_nulls:
            raise self.sql.refused(
                f"{name.upper()} may be a null in SQL, and here nulls are skipped",
                call.span,
                f"{name.upper()}(column IGNORE NULLS)",
                "write it so, where that is what is meant",
            )
        spelling = SPELLINGS.get(name)
        if spelling is not None:
            return self._spelled(call, spelling, positional, named)
        if name in ours:
            return ours[name], positional, named
        if name in _BOUNDS:
            raise self.sql.refused(
                f"{call.node.this} is no feature: every answer carries its window's start and end",
                call.span,
                "an aggregate",
            )
        known = known_names()
        if name in REASONS:
            reason, instead = REASONS[name]
            raise self.sql.refused(
                f"{name.upper()} cannot be kept incrementally: {reason}",
                call.span,
                "one of " + listed(known, 60),
                instead,
            )
        raise self.sql.refused(
            f"unknown function {call.node.this!r}", call.span, "one of " + listed(known, 60), nearest(name, known)
        )

    def _spelled(
        self, call: Call, spelling: Spelling, positional: list[exp.Expr], named: dict[str, Any]
    ) -> tuple[Callable[..., Aggregate], list[exp.Expr], dict[str, Any]]:
        made = existing().get(spelling.function)
        if made is None:
            raise self.sql.refused(
                f"{call.name.upper()} is the aggregate {spelling.function!r}, which this version does not have",
                call.span,
                "one of " + listed(known_names(), 60),
            )
        if len(positional) > len(spelling.order):
            more = node_span(positional[len(spelling.order)]) or call.span
            instead = {"argmax": "top_k", "argmin": "bottom_k"}.get(spelling.function)
            raise self.sql.refused(
                f"{call.name.upper()} takes {len(spelling.order)} arguments here",
                more,
                f"{call.name}({', '.join(spelling.order)})",
                f"{instead}(payload, by => column, k => 3) answers several" if instead else None,
            )
        values = dict(zip(spelling.order, positional, strict=False))
        one = values.get(spelling.several or "")
        if one is not None and not isinstance(one, exp.Array):
            raise self.sql.refused(
                f"{call.name.upper()} answers a list here, of one value for each of the second argument's",
                node_span(one) or call.span,
                f"{call.name}(column, ARRAY[0.5])",
            )
        # What the aggregate does not know by that name it has by default, or bind says what is missing.
        known = inspect.signature(made).parameters
        given = {name: value for name, value in spelling.given.items() if name in known}
        if len(given) < len(spelling.given) and any(spelling.given.values()):
            raise self.sql.refused(
                f"{call.name.upper()} is {spelling.function} with {dict(spelling.given)}, which is not there",
                call.span,
                "one of " + listed(known_names(), 60),
            )
        order = [name for name, p in known.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        first = [values.pop(name) for name in order if name in values]
        return made, first, {**given, **values, **named}

    def _count(
        self, call: Call, positional: list[exp.Expr], named: dict[str, Any]
    ) -> tuple[Callable[..., Aggregate], list[exp.Expr], dict[str, Any]]:
        ours = existing()
        if len(positional) == 1:
            (node,) = positional
            if isinstance(node, exp.Star) or (isinstance(node, exp.Literal) and not node.is_string):
                return ours["count"], [], named
            if isinstance(node, exp.Distinct):
                if len(node.expressions) != 1:
                    raise self.sql.refused(
                        "COUNT(DISTINCT …) of several columns", node_span(node) or call.span, "one column or expression"
                    )
                return ours["distinct_count"], [node.expressions[0]], named
        return ours["count"], positional, named

    def _given(self, call: Call) -> tuple[list[exp.Expr], dict[str, Any]]:
        positional: list[exp.Expr] = []
        named: dict[str, Any] = {}
        for node in call.node.expressions:
            inner = node.this if isinstance(node, exp.IgnoreNulls) else node
            if isinstance(inner, exp.RespectNulls | exp.Order):
                raise self.sql.refused(
                    "RESPECT NULLS and ORDER BY inside of a function are not there: nulls are skipped, "
                    "and the order of events is that of their time",
                    node_span(inner) or call.span,
                )
            if isinstance(inner, exp.Kwarg):
                name = inner.this.name.lower()
                if name == "where" or name in named:
                    said = "a condition is written FILTER (WHERE …)" if name == "where" else f"{name} stands twice"
                    raise self.sql.refused(said, node_span(inner) or call.span)
                named[name] = inner.expression
            elif named:
                raise self.sql.refused("this stands after a named argument", node_span(inner) or call.span)
            else:
                positional.append(inner)
        return positional, named

    def _where(self, call: Call, made: Callable[..., Aggregate]) -> dict[str, Any]:
        assert call.filter is not None
        if "where" not in inspect.signature(made).parameters:
            raise self.sql.refused(
                f"{call.name.upper()} takes no FILTER in this version",
                node_span(call.filter) or call.span,
                "WHERE for the whole view, or CASE inside of the function",
                f"write {call.name}(CASE WHEN … THEN … END)",
            )
        return {"where": self.logic.condition(call.filter)}

    # ---- arguments
    def _value(self, node: exp.Expr, call: Call, used: set[str]) -> Any:
        if isinstance(node, exp.Column) and not node.args.get("table"):
            self.logic.known(node)
            used.add(node.name)
            return node.name
        if isinstance(node, exp.Array | exp.Tuple):
            return [self._value(each, call, used) for each in node.expressions]
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in known_names():
            inner = self.aggregate(Call(node, node_span(node) or call.span))
            used.update(columns_of(inner))
            return inner
        constant = _constant(node)
        if constant is not _NONE:
            return constant
        name = self.logic.computed(node)
        used.add(name)
        return name


_NONE = object()


def columns_of(aggregate: Aggregate) -> tuple[str, ...]:
    """What it reads, without the column of its condition, which the planner makes."""
    return getattr(aggregate, "core", aggregate).inputs


def _constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Literal):
        text = str(node.this)
        return text if node.is_string else int(text) if text.isdigit() else float(text)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_constant(node.this)
    return _NONE


def _plain(signature: inspect.Signature) -> str:
    """A signature without types, as SQL would call it."""
    parts = []
    for name, parameter in signature.parameters.items():
        if name == "where":
            continue
        shown = f"{name} => …" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else name
        parts.append(shown if parameter.default is inspect.Parameter.empty else f"[{shown}]")
    return f"({', '.join(parts)})"
