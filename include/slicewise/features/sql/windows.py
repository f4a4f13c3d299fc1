"""A feature answers for the very window that SQL says, to its edges; what would mean something else
is refused.

`ORDER BY SLICE(ts) RANGE …` is the sliding window, whose bounds lie on slices;
`ORDER BY ts RANGE …` is exact and closed at both ends; docs/adr/0035.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from slicewise.features.sql.lengths import Meant, entity_column, interval, is_whole
from slicewise.features.sql.text import Span, SqlText, Tokens, node_span
from slicewise.names import nearest
from slicewise.windows.exact_range import exact_range
from slicewise.windows.lifetime import lifetime
from slicewise.windows.rows import rows
from slicewise.windows.sliding import sliding

SLICE = "SLICE"
_FRAME = "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"


@dataclass(frozen=True)
class Windows:
    """Reads OVER. timestamp: the source's event time. named: the windows of the WINDOW clause, with
    their tokens. column_name: refuses a column that does not exist."""

    sql: SqlText
    timestamp: str
    named: Mapping[str, tuple[exp.Window, Tokens]]
    column_name: Callable[[exp.Column], str]

    def over(self, node: exp.Window, tokens: Tokens) -> tuple[tuple[exp.Column, ...], Meant, Span]:
        """Partition columns and window of OVER, and its place. tokens: those of OVER (…)."""
        partition, order, spec, where = self._merged(node, tokens, ())
        entity = tuple(
            entity_column(self.sql, column, "PARTITION BY", where) for column in partition
        )
        if not order:
            raise self.sql.refused(
                "there is no ORDER BY: the window would be all events for ever",
                where.span(),
                f"ORDER BY {SLICE}({self.timestamp}) {_FRAME}",
            )
        sliced = self._order(order, where)
        if spec is None:
            raise self.sql.refused(
                "there is no frame: SQL's own is all events up to the row, which has no bound",
                where.span(),
                f"ORDER BY {SLICE}({self.timestamp}) {_FRAME}",
                "say how far the window reaches back",
            )
        return entity, self._frame(spec, where, sliced), where.span()

    def refuse_wrong(self) -> None:
        """Refuse what is wrong in a window of the WINDOW clause, also where no feature uses it."""
        for name, (node, tokens) in self.named.items():
            partition, order, spec, where = self._merged(node, tokens, (name,))
            for column in partition:
                self.column_name(entity_column(self.sql, column, "PARTITION BY", where))
            sliced = bool(order and self._order(order, where))
            if spec:
                self._frame(spec, where, sliced)

    def _merged(
        self, node: exp.Window, tokens: Tokens, seen: tuple[str, ...]
    ) -> tuple[list[exp.Expr], exp.Expr | None, exp.Expr | None, Tokens]:
        partition, order, spec = (
            node.args.get("partition_by") or [],
            node.args.get("order"),
            node.args.get("spec"),
        )
        base = node.args.get("alias")
        if base is None:
            return partition, order, spec, tokens
        name = base.name
        if name not in self.named or name in seen:
            raise self.sql.refused(
                f"window {name!r} names itself" if name in seen else f"unknown window {name!r}",
                node_span(base) or tokens.span(),
                f"WINDOW {name} AS (PARTITION BY … ORDER BY … RANGE …)",
                nearest(name, set(self.named) - {*seen, name}),
            )
        upper, its = self.named[name]
        inherited = self._merged(upper, its, (*seen, name))
        for what, own, theirs in (
            ("PARTITION BY", partition, inherited[0]),
            ("ORDER BY", order, inherited[1]),
        ):
            if own and theirs:
                raise self.sql.refused(
                    f"{what} stands here and in window {name!r}", tokens.span(), "one of them"
                )
        if spec and inherited[2]:
            raise self.sql.refused(
                f"a frame stands here and in window {name!r}", tokens.span(), "one of them"
            )
        where = tokens if spec is not None or inherited[2] is None else inherited[3]
        return partition or inherited[0], order or inherited[1], spec or inherited[2], where

    def _order(self, order: exp.Expr, tokens: Tokens) -> bool:
        """Tells whether events are ordered by slice."""
        by = order.expressions
        span = node_span(order) or tokens.span()
        if len(by) == 1:
            inner = by[0].this
            if by[0].args.get("desc"):
                raise self.sql.refused(
                    "DESC: the window would lie in the future", span, f"ORDER BY {self.timestamp}"
                )
            if (
                isinstance(inner, exp.Column)
                and inner.name == self.timestamp
                and not inner.args.get("table")
            ):
                return False
            if isinstance(inner, exp.Anonymous) and str(inner.this).upper() == SLICE:
                (argument, *more) = [*inner.expressions, None]
                if (
                    isinstance(argument, exp.Column)
                    and argument.name == self.timestamp
                    and more == [None]
                ):
                    return True
        raise self.sql.refused(
            "ORDER BY is not the event time",
            span,
            f"ORDER BY {SLICE}({self.timestamp}) or ORDER BY {self.timestamp}",
            f"{self.timestamp!r} is the event time of the source",
        )

    def _frame(self, spec: exp.Expr, tokens: Tokens, sliced: bool) -> Meant:
        kind = str(spec.args.get("kind") or "").upper()
        span = self._frame_span(tokens)
        start, end = spec.args.get("start"), spec.args.get("end")
        sides = [str(spec.args.get(side) or "").upper() for side in ("start_side", "end_side")]
        unbounded = isinstance(start, str) and start.upper() == "UNBOUNDED"
        if unbounded and sides[0] == "FOLLOWING":
            raise self.sql.refused("the frame lies in the future", span, _FRAME)
        if "FOLLOWING" in sides or (isinstance(end, str) and end.upper() == "UNBOUNDED"):
            at = tokens.within(span).find("FOLLOWING") or span
            raise self.sql.refused(
                (
                    "the frame reaches into the future: what follows is not known when the "
                    "feature is asked for"
                ),
                at,
                "a frame that ends at CURRENT ROW or before",
            )
        if end is None and tokens.within(span).find("BETWEEN"):
            raise self.sql.refused("BETWEEN has no AND", span, _FRAME)
        if unbounded:
            return self._lifetime(kind, end, span, sliced, spec)
        if isinstance(start, str):
            raise self.sql.refused(f"the frame begins at {start}", span, _FRAME)
        if sides[0] != "PRECEDING":
            raise self.sql.refused("the frame does not say PRECEDING", span, _FRAME)
        if kind == "ROWS":
            return self._rows(start, end, span, sliced, spec)
        if kind != "RANGE":
            raise self.sql.refused(
                f"{kind}: groups of peers are no window of features",
                tokens.find(kind) or span,
                "RANGE or ROWS",
            )
        begins = interval(self.sql, start, span)
        ends = 0 if end is None or isinstance(end, str) else interval(self.sql, end, span)
        if ends >= begins:
            raise self.sql.refused("the frame ends before it begins", span, _FRAME)
        return (
            self._sliding(begins, ends, span, spec)
            if sliced
            else self._exact(begins, ends, span, spec)
        )

    def _lifetime(self, kind: str, end: Any, span: Span, sliced: bool, spec: exp.Expr) -> Meant:
        if kind != "RANGE" or not sliced or spec.args.get("exclude") is not None:
            raise self.sql.refused(
                (
                    "UNBOUNDED PRECEDING: all events for ever are kept as slices and a total, not "
                    "one by one"
                ),
                span,
                (
                    f"ORDER BY {SLICE}({self.timestamp}) RANGE BETWEEN UNBOUNDED PRECEDING AND "
                    "CURRENT ROW"
                ),
                (
                    f"write {SLICE}({self.timestamp}) for the lifetime, which ends at a slice, or "
                    "how far to reach back"
                ),
            )
        if end is None or isinstance(end, str):
            return Meant(lifetime, (), span)
        return Meant(lambda offset: lifetime(offset=offset), (interval(self.sql, end, span),), span)

    def _sliding(self, begins: int, ends: int, span: Span, spec: exp.Expr) -> Meant:
        if spec.args.get("exclude") is not None:
            raise self.sql.refused(
                "EXCLUDE: slices know no single rows", span, "a frame without EXCLUDE"
            )
        if not ends:
            return Meant(sliding, (begins,), span)
        return Meant(
            lambda length, offset: sliding(length, offset=offset), (begins - ends, ends), span
        )

    def _exact(self, begins: int, ends: int, span: Span, spec: exp.Expr) -> Meant:
        excluded = str(getattr(spec.args.get("exclude"), "name", "") or "NO OTHERS").upper()
        if excluded == "NO OTHERS" and ends:
            return Meant(
                lambda length, offset: exact_range(length, offset=offset),
                (begins - ends, ends),
                span,
            )
        if excluded == "NO OTHERS":
            return Meant(exact_range, (begins,), span)
        if excluded != "GROUP" or ends:
            raise self.sql.refused(
                f"EXCLUDE {excluded}: no exact window leaves that out",
                span,
                f"{_FRAME} [EXCLUDE GROUP]",
            )
        return Meant(lambda length: exact_range(length, closed="left"), (begins,), span)

    def _rows(self, start: Any, end: Any, span: Span, sliced: bool, spec: exp.Expr) -> Meant:
        counted = isinstance(start, exp.Literal) and not start.is_string
        text = str(start.this) if counted else ""
        for wrong, why in (
            (sliced, f"ROWS over {SLICE}({self.timestamp}): slices know no single rows"),
            (not (end is None or isinstance(end, str)), "ROWS that end before the current row"),
            (not is_whole(text), "ROWS without a whole number of rows"),
            (spec.args.get("exclude") is not None, "ROWS with EXCLUDE"),
        ):
            if wrong:
                raise self.sql.refused(
                    why, span, f"ORDER BY {self.timestamp} ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"
                )
        return Meant(lambda: rows(int(text) + 1), (), span)

    def _frame_span(self, tokens: Tokens) -> Span:
        for index in range(len(tokens)):
            if tokens.word(index) in ("RANGE", "ROWS", "GROUPS"):
                last = len(tokens) - 1 if tokens.word(len(tokens) - 1) == ")" else len(tokens)
                return tokens.part(index, last).span()
        return tokens.span()


def tokens_of_over(tokens: Tokens) -> Tokens:
    """The tokens behind OVER of a selected item."""
    positions = tokens.outside("OVER")
    return tokens.part(positions[-1] + 1, len(tokens)) if positions else tokens
