"""A function of SQL becomes the aggregate of the same meaning, or is refused by its name with what
exists.

Every aggregate can be called by its own name with its own parameters, as in
`top_k(song, by => seconds, k => 5)`; the field's names stand beside them where the meaning is the
same.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from slicewise.aggregates import Aggregate
from slicewise.calls import misfit
from slicewise.errors import DefinitionError
from slicewise.features.sql.lengths import interval, is_whole
from slicewise.features.sql.names import (
    BOUNDS,
    OF_NULLS,
    OF_WINDOWS,
    REASONS,
    SPELLINGS,
    Spelling,
    existing,
    expected_names,
    function_names,
    meant,
)
from slicewise.features.sql.rowlogic import RowLogic
from slicewise.features.sql.text import Span, SqlText, node_span
from slicewise.names import nearest
from slicewise.windows.durations import format_duration


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
        if call.filter is not None and "where" not in named:
            named |= self._where(call, made)
        used: set[str] = set()
        arguments = [self._value(node, call, used) for node in positional]
        keywords = {
            name: self._value(v, call, used) if isinstance(v, exp.Expr) else v
            for name, v in named.items()
        }
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
        wrong = misfit(made, str(call.node.this), arguments, keywords)
        if wrong is not None:
            raise self.sql.refused(
                wrong,
                call.span,
                f"{made.__name__}{_plain(signature)}",
                "write it so; what has => is given by its name",
            )
        try:
            aggregate = made(*arguments, **keywords)
        except DefinitionError as error:
            raise self.sql.refused(
                error.what, call.span, error.expected, error.next_step
            ) from error
        except (TypeError, ValueError, AttributeError) as error:
            # an argument of a kind that the function never had
            raise self.sql.refused(
                f"{call.node.this} has an argument that it cannot take",
                call.span,
                f"{made.__name__}{_plain(signature)}",
            ) from error
        texts = [n for n in columns_of(aggregate) if n not in used and n in self.logic.kinds]
        if texts:
            raise self.sql.refused(
                f"{texts[0]!r} is a column, written as text",
                call.span,
                "the column's name without quotes",
            )
        return aggregate

    # ---- which function
    def _arguments(
        self, call: Call
    ) -> tuple[Callable[..., Aggregate], list[exp.Expr], dict[str, Any]]:
        name, ours = call.name, existing()
        positional, named = self._given(call)
        for node in (*positional, *named.values()):
            if isinstance(node, exp.Null):
                raise self.sql.refused(
                    f"{name.upper()} of NULL is the same whatever happens",
                    call.span,
                    "a column or an expression",
                )
        if name in ("count_if", "countif") and len(positional) == 1:
            return (
                ours["count"],
                [],
                {**named, "where": self.logic.condition(_all_of(positional[0], call.filter))},
            )
        if name == "count":
            return self._count(call, positional, named)
        for node in positional:
            if isinstance(node, exp.Star):
                raise self.sql.refused(
                    f"{name}(*)", node_span(node) or call.span, "a column; only COUNT takes *"
                )
            if isinstance(node, exp.Distinct):
                raise self.sql.refused(
                    (
                        f"{name.upper()}(DISTINCT …) keeps every value, so that its partial has "
                        "no bound"
                    ),
                    node_span(node) or call.span,
                    "COUNT(DISTINCT column) is the one that exists",
                )
        if name in OF_NULLS and not call.ignore_nulls:
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
        if name.upper() in OF_WINDOWS:
            raise self.sql.refused(
                f"{call.node.this} is a word of windows, and no feature",
                call.span,
                "an aggregate",
                "leave it out: every answer carries its window's start and end",
            )
        if name in BOUNDS:
            raise self.sql.refused(
                f"{call.node.this} is no feature: every answer carries its window's start and end",
                call.span,
                "an aggregate",
            )
        if name in REASONS:
            reason, instead = REASONS[name]
            raise self.sql.refused(
                f"{name.upper()} cannot be kept incrementally: {reason}",
                call.span,
                expected_names(),
                instead,
            )
        raise self.sql.refused(
            f"unknown function {call.node.this!r}", call.span, expected_names(), meant(name)
        )

    def _spelled(
        self, call: Call, spelling: Spelling, positional: list[exp.Expr], named: dict[str, Any]
    ) -> tuple[Callable[..., Aggregate], list[exp.Expr], dict[str, Any]]:
        made = existing().get(spelling.function)
        if made is None:
            raise self.sql.refused(
                (
                    f"{call.name.upper()} is the aggregate {spelling.function!r}, which this "
                    "version does not have"
                ),
                call.span,
                expected_names(),
            )
        if len(positional) > len(spelling.order):
            more = node_span(positional[len(spelling.order)]) or call.span
            most = len(spelling.order)
            instead = {"argmax": "top_k", "argmin": "bottom_k"}.get(spelling.function)
            raise self.sql.refused(
                f"{call.name.upper()} takes {most} argument{'s' if most > 1 else ''} here",
                more,
                f"{call.name}({', '.join(spelling.order)})",
                f"{instead}(payload, by => column, k => 3) answers several" if instead else None,
            )
        values = dict(zip(spelling.order, positional, strict=False))
        one = values.get(spelling.several or "")
        if one is not None and not isinstance(one, exp.Array):
            raise self.sql.refused(
                (
                    f"{call.name.upper()} answers a list here, of one value for each of the "
                    "second argument's"
                ),
                node_span(one) or call.span,
                f"{call.name}(column, ARRAY[0.5])",
            )
        # What the aggregate does not know by that name it has by default, or bind says what is
        # missing.
        parameters = inspect.signature(made).parameters
        given = {name: value for name, value in spelling.given.items() if name in parameters}
        if len(given) < len(spelling.given) and any(spelling.given.values()):
            raise self.sql.refused(
                (
                    f"{call.name.upper()} is {spelling.function} with {dict(spelling.given)}, "
                    "which is not there"
                ),
                call.span,
                expected_names(),
            )
        order = [
            name for name, p in parameters.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY
        ]
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
                        "COUNT(DISTINCT …) of several columns",
                        node_span(node) or call.span,
                        "one column or expression",
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
                    "RESPECT NULLS and ORDER BY inside of a function are not there: nulls are "
                    "skipped, "
                    "and the order of events is that of their time",
                    node_span(inner) or call.span,
                )
            if isinstance(inner, exp.Kwarg):
                name = inner.this.name.lower()
                if name == "where" or name in named:
                    message = (
                        "a condition is written FILTER (WHERE …)"
                        if name == "where"
                        else f"{name} stands twice"
                    )
                    raise self.sql.refused(
                        message, node_span(inner) or call.span, "each parameter once", "remove one"
                    )
                named[name] = inner.expression
            elif named:
                raise self.sql.refused(
                    "this stands after a named argument",
                    node_span(inner) or call.span,
                    "last_k(song, k => 3): arguments without a name first",
                    "move it to the front, or name it",
                )
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
            self.logic.column_name(node)
            used.add(node.name)
            return node.name
        if isinstance(node, exp.Array | exp.Tuple):
            return [self._value(expression, call, used) for expression in node.expressions]
        aggregate, condition = (
            (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)
        )
        if isinstance(aggregate, exp.Anonymous) and str(aggregate.this).lower() in function_names():
            inner = self.aggregate(Call(aggregate, node_span(aggregate) or call.span, condition))
            used.update(columns_of(inner))
            return inner
        if isinstance(node, exp.Interval):
            return format_duration(interval(self.sql, node, call.span))
        constant = _constant(node)
        if constant is not _NONE:
            return constant
        name = self.logic.computed(node)
        used.add(name)
        return name


_NONE = object()
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_CONDITION = ""
"""A column that has no name yet."""


def columns_of(aggregate: Aggregate) -> tuple[str, ...]:
    """The columns that it reads, without those of conditions, which the planner makes."""
    return tuple(
        name for name in aggregate.resolve(lambda _: _CONDITION).inputs if name != _CONDITION
    )


def _all_of(first: exp.Expr, second: exp.Expr | None) -> exp.Expr:
    """Both conditions, where there is a second one."""
    return (
        first
        if second is None
        else exp.And(this=exp.Paren(this=first), expression=exp.Paren(this=second))
    )


def _constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Literal):
        text = str(node.this)
        if node.is_string or is_whole(text):
            return text if node.is_string else int(text)
        return float(text) if _NUMBER.fullmatch(text) else _NONE  # what is none, row logic refuses
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
