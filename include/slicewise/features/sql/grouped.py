"""GROUP BY … TUMBLE, HOP and SESSION, with Flink's names and order of arguments, are windows side
by side."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from slicewise.features.sql.lengths import Meant, entity_column, interval
from slicewise.features.sql.text import SqlText, Tokens, node_span
from slicewise.names import nearest
from slicewise.windows.durations import format_duration
from slicewise.windows.hopping import hopping
from slicewise.windows.session import session
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window

GROUP_WINDOWS = ("TUMBLE", "HOP", "SESSION")


@dataclass(frozen=True)
class _Tumbling:
    open: bool

    def __call__(self, length: str, offset: str | None = None) -> Window:
        return tumbling(length, open=self.open, offset=offset)


@dataclass(frozen=True)
class _Hopping:
    open: bool

    def __call__(self, length: str, every: str, offset: str | None = None) -> Window:
        return hopping(length, every=every, open=self.open, offset=offset)


@dataclass(frozen=True)
class Grouped:
    """Reads GROUP BY. timestamp: the event time of the source."""

    sql: SqlText
    timestamp: str

    def read(self, group: exp.Expr, tokens: Tokens) -> tuple[tuple[exp.Column, ...], Meant]:
        """Entity columns and window of GROUP BY. tokens: those behind GROUP BY."""
        if tokens.word(0) == "ALL":
            raise self.sql.refused(
                "GROUP BY ALL does not say what the entity is", tokens.at(0), "its columns by name"
            )
        if [name for name, value in group.args.items() if value and name != "expressions"]:
            raise self.sql.refused(
                "ROLLUP, CUBE and grouping sets are several entities at once",
                tokens.span(),
                "a view for each",
            )
        columns: list[exp.Column] = []
        window: Meant | None = None
        parts = tokens.split(",")
        rolled = tokens.outside("ROLLUP", "CUBE", "GROUPING SETS", "GROUPING")
        if rolled:
            message = "ROLLUP, CUBE and grouping sets are several entities at once"
            raise self.sql.refused(message, tokens.at(rolled[0]), "a view for each")
        for node, part in zip(group.expressions, parts, strict=False):
            if isinstance(node, exp.Anonymous):
                if window is not None:
                    raise self.sql.refused("a second window", part.span(), "one window in GROUP BY")
                window = self._group_window(node, part)
            elif isinstance(node, exp.Literal):
                raise self.sql.refused("a position in GROUP BY", part.span(), "the column's name")
            else:
                columns.append(entity_column(self.sql, node, "GROUP BY", part))
        if window is None:
            raise self.sql.refused(
                "GROUP BY has no window: the groups would be all events for ever",
                tokens.span(),
                f"GROUP BY …, TUMBLE({self.timestamp}, INTERVAL '1' HOUR), or HOP",
            )
        return tuple(columns), window

    def _group_window(self, node: exp.Anonymous, tokens: Tokens) -> Meant:
        name = str(node.this).upper()
        if name not in GROUP_WINDOWS:
            raise self.sql.refused(
                f"{node.this} is no window of GROUP BY",
                tokens.at(0),
                f"TUMBLE({self.timestamp}, length), HOP({self.timestamp}, every, length)",
                nearest(name, GROUP_WINDOWS),
            )
        time = node.expressions[0] if node.expressions else None
        rest = node.expressions[1:]
        if not isinstance(time, exp.Column) or time.name != self.timestamp:
            raise self.sql.refused(
                f"{name} is not over the event time",
                (node_span(time) if isinstance(time, exp.Expr) else None) or tokens.span(),
                f"{name}({self.timestamp}, …)",
            )
        named = {
            argument.this.name.lower(): argument.expression
            for argument in rest
            if isinstance(argument, exp.Kwarg)
        }
        lengths = [
            interval(self.sql, argument, tokens.span())
            for argument in rest
            if not isinstance(argument, exp.Kwarg)
        ]
        if name == "SESSION":
            return self._session(lengths, named, tokens)
        wanted = {"TUMBLE": 1, "HOP": 2}[name]
        opened = named.pop("open", None)
        back = [interval(self.sql, named.pop("offset"), tokens.span())] if "offset" in named else []
        if (
            len(lengths) != wanted
            or named
            or not (opened is None or isinstance(opened, exp.Boolean))
        ):
            raise self.sql.refused(
                f"{name} is called otherwise",
                tokens.span(),
                f"TUMBLE({self.timestamp}, INTERVAL '1' HOUR), or HOP({self.timestamp}, INTERVAL "
                "'10' MINUTE, "
                "INTERVAL '1' HOUR): first how far it moves, then how long it is; "
                "and open => TRUE, offset => INTERVAL '1' DAY",
            )
        is_open = bool(opened is not None and opened.this)
        if name == "TUMBLE":
            return Meant(_Tumbling(is_open), (*lengths, *back), tokens.span())
        every, length = lengths
        if every > length:
            raise self.sql.refused(
                (
                    f"a window of {format_duration(length)} that moves by "
                    f"{format_duration(every)} misses events"
                ),
                tokens.span(),
                "first how far it moves, then how long it is, the first no more than the second",
                "swap them, if that is what is meant",
            )
        if length % every:
            raise self.sql.refused(
                f"a window of {format_duration(length)} is no multiple of its hop of "
                f"{format_duration(every)}: "
                "SQL's would begin at each multiple of the hop, ours end there",
                tokens.span(),
                "a length that is a multiple of the hop: both are the same windows then",
                f'in Python: sw.hopping("{format_duration(length)}", '
                f'every="{format_duration(every)}") ends at each '
                "multiple of its hop",
            )
        return Meant(_Hopping(is_open), (length, every, *back), tokens.span())

    def _session(self, lengths: list[int], named: Mapping[str, exp.Expr], tokens: Tokens) -> Meant:
        declared = inspect.signature(session).parameters
        parameters, wanted = (
            list(declared),
            {name for name, parameter in declared.items() if parameter.default is parameter.empty},
        )
        names = [*parameters[: len(lengths)], *named]
        if (
            len(lengths) > len(parameters)
            or not wanted <= set(names) <= set(parameters)
            or len(set(names)) < len(names)
        ):
            raise self.sql.refused(
                "SESSION is called otherwise",
                tokens.span(),
                f"SESSION({self.timestamp}, INTERVAL '30' MINUTE, INTERVAL '1' DAY): first the "
                "gap, then how long one "
                "may last; and offset => INTERVAL '1' DAY",
            )
        spans = [
            *lengths,
            *(interval(self.sql, length, tokens.span()) for length in named.values()),
        ]
        return Meant(
            lambda *texts: session(**dict(zip(names, texts, strict=True))),
            tuple(spans),
            tokens.span(),
        )
