"""A SELECT is a view: its entity, its windows, its features; every clause that a view cannot be is
refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from slicewise.aggregates import Aggregate, count
from slicewise.errors import DefinitionError
from slicewise.features.declare.definitions import Case, Feature, FeatureView, KafkaSource
from slicewise.features.expectations import Expectation
from slicewise.features.naming import Location
from slicewise.features.plan.planner import plan_source, plan_view
from slicewise.features.rowlogic.functions.allowed import BY_NAME
from slicewise.features.spelled import spelled
from slicewise.features.sql.clauses import ONE_SOURCE, Clauses, is_distinct_from
from slicewise.features.sql.functions import Call, Functions, columns_of
from slicewise.features.sql.grouped import Grouped
from slicewise.features.sql.lengths import Meant
from slicewise.features.sql.names import expected_names, function_names, meant
from slicewise.features.sql.rowlogic import RowLogic
from slicewise.features.sql.statements import (
    DESCRIBE,
    EXPECT,
    Statement,
    expectations,
    refuse_unknown_options,
    tags,
    texts_of,
    truth,
)
from slicewise.features.sql.text import Span, SqlText, Tokens, node_span
from slicewise.features.sql.windows import Windows, tokens_of_over
from slicewise.names import nearest
from slicewise.windows.durations import parse_duration
from slicewise.windows.slices import check_slice, default_slice
from slicewise.windows.window import Window

QUERY = "query"
"""The name of a view that is asked for without one."""
_OPTIONS = ("slice", "spread", "owner", "global", "expect", "description", "describe", "tags")


@dataclass(frozen=True)
class _Item:
    """A selected feature before it has its name."""

    call: Call
    meant: Meant
    alias: str | None
    alias_span: Span
    aggregate: Aggregate


def read_view(
    sql: SqlText,
    statement: Statement,
    sources: Mapping[str, KafkaSource],
    location: Location,
    tests: Sequence[Case] = (),
) -> FeatureView:
    """The view of a SELECT. Raises SqlRefused, with the place, for all that is wrong in it."""
    return _Select(sql, statement, sources, location, tests).view()


def source_of(statement: Statement) -> str | None:
    """The name that stands behind FROM, if a single name does."""
    tokens = statement.body
    positions = [i for i in tokens.outside("FROM") if not is_distinct_from(tokens, i)]
    if not positions or positions[0] + 1 >= len(tokens):
        return None
    name, then = (
        tokens.word(positions[0] + i) if positions[0] + i < len(tokens) else "" for i in (1, 2)
    )
    return None if "(" in (name, then) else str(tokens[positions[0] + 1].text)


class _Select:
    def __init__(
        self,
        sql: SqlText,
        statement: Statement,
        sources: Mapping[str, KafkaSource],
        location: Location,
        tests: Sequence[Case],
    ) -> None:
        self.sql, self.statement, self.location, self.tests = sql, statement, location, tests
        refuse_unknown_options(sql, statement.options, _OPTIONS, {})
        self.clauses = Clauses.of(sql, statement.body)
        self.parts, self.tree = self.clauses.parts, self.clauses.tree
        self.source = self.clauses.source(sources)
        kinds = dict(plan_source(self.source).columns)
        self.logic = RowLogic(sql, kinds, statement.head, frozenset(function_names()))
        self.functions = Functions(sql, self.logic)
        self.windows = Windows(
            sql, self.source.timestamp, self.clauses.windows(), self.logic.column_name
        )

    # ---- the view
    def view(self) -> FeatureView:
        items, plain = self._items()
        entity = self._entity(plain)
        self.windows.refuse_wrong()
        options = {name: option.value for name, option in self.statement.options.items()}
        condition = self.tree.args.get("where")
        where = None if condition is None else self.logic.condition(condition.this)
        slice_text = options.get("slice")
        features = self._described(self._expected(self._features(items)))
        of = f"view {self.statement.name!r}"
        given_tags = tags(self.sql, self.statement.options.get("tags"), of)
        try:
            view = FeatureView(
                self.statement.name or QUERY,
                source=self.source,
                entity=entity,
                features=features,
                where=where,
                columns=self.logic.columns,
                slice=None if (slice_text or "auto").lower() == "auto" else slice_text,
                spread=truth(self.sql, self.statement.options.get("spread")),
                owner=options.get("owner"),
                description=options.get("description"),
                tags=given_tags,
                tests=self.tests,
                location=self.location,
            )
            self._check_windows(view, [item.meant for item in items])
            self._check_aggregates(view, items)
            plan_view(view, plan_source(self.source))
        except DefinitionError as error:
            if hasattr(error, "column"):
                raise
            raise self.sql.refused(
                error.what, self._span_of(error), error.expected, error.next_step
            ) from error
        return view

    def _expected(self, features: Sequence[Feature]) -> list[Feature]:
        """The features with what the option `expect` says of their columns."""
        option = self.statement.options.get("expect")
        given: dict[str, list[Expectation]] = {}
        for expectation in expectations(self.sql, option, f"view {self.statement.name!r}"):
            names = expectation.columns()
            feature = next((f for f in features if names and names[0] in f.columns()), None)
            if feature is None:
                assert option is not None
                columns = [column for f in features for column in f.columns()]
                raise self.sql.refused(
                    f"{expectation.type} names {names[0]!r}, which is no column"
                    if names
                    else f"{expectation.type} names no column",
                    option.span,
                    EXPECT + ", with one of " + ", ".join(columns),
                    nearest(names[0], columns) if names else None,
                )
            given.setdefault(feature.name, []).append(expectation)
        return [
            replace(feature, expect=given[feature.name]) if feature.name in given else feature
            for feature in features
        ]

    def _described(self, features: Sequence[Feature]) -> list[Feature]:
        """The features with what the option `describe` says of their columns."""
        option = self.statement.options.get("describe")
        given: dict[str, str] = {}
        for column, text in texts_of(self.sql, option).items():
            assert option is not None
            feature = next((f for f in features if column in f.columns()), None)
            if feature is None:
                columns = [name for f in features for name in f.columns()]
                raise self.sql.refused(
                    f"describe names {column!r}, which is no column",
                    option.span,
                    DESCRIBE + ", with one of " + ", ".join(columns),
                    nearest(column, columns),
                )
            if given.setdefault(feature.name, text) != text:
                raise self.sql.refused(
                    f"feature {feature.name!r} is described twice",
                    option.span,
                    "one text for all windows of a feature",
                    f"leave {column!r} out",
                )
        return [replace(f, description=given.get(f.name, f.description)) for f in features]

    def _span_of(self, error: DefinitionError) -> Span:
        """The option that the error is about, else the view's name."""
        message = f"{error.what} {error.where}"
        options = self.statement.options.items()
        return next(
            (o.name_span for n, o in options if f"{n} is" in message or f"{n} of" in message),
            self.statement.head,
        )

    def _check_windows(self, view: FeatureView, meant: Sequence[Meant]) -> None:
        for item in meant:
            window = item.plain()
            if window.by_events:
                continue  # answered from events: no slice has to divide it
            try:
                if view.slice is None:
                    default_slice([window])
                else:
                    check_slice(parse_duration(view.slice), [window])
            except DefinitionError as error:
                raise self.sql.refused(
                    error.what, item.span, error.expected, error.next_step
                ) from error

    def _check_aggregates(self, view: FeatureView, items: Sequence[_Item]) -> None:
        """Checks the aggregates one by one, so that what is wrong with one is said where it
        stands."""
        for item in items:
            one = replace(
                view, features=[Feature("feature", item.aggregate, [item.meant.plain()])], tests=()
            )
            try:
                plan_view(one, plan_source(self.source))
            except DefinitionError as error:
                raise self.sql.refused(
                    error.what, item.call.span, error.expected, error.next_step
                ) from error

    def _items(self) -> tuple[list[_Item], list[tuple[exp.Column, Tokens]]]:
        """Features, and columns that are selected as they are."""
        written = self.parts["SELECT"].split(",")
        pairs = list(zip(self.tree.expressions, written, strict=True))
        grouped = None
        if "GROUP BY" in self.parts:
            grouped = Grouped(self.sql, self.source.timestamp).read(
                self.tree.args["group"], self.parts["GROUP BY"]
            )
        plain: list[tuple[exp.Column, Tokens]] = []
        waiting: list[tuple[exp.Expr, exp.Expr, Tokens]] = []
        for node, tokens in pairs:
            inner = node.unalias()
            if isinstance(inner, exp.Star) or isinstance(inner.this, exp.Star):
                raise self.sql.refused(
                    "* is no list of features", tokens.span(), "entity columns and features"
                )
            if isinstance(inner, exp.Column):
                if isinstance(node, exp.Alias):
                    self._computed(node, inner, tokens)
                plain.append((inner, tokens))
            elif _is_feature(inner):
                waiting.append((node, inner, tokens))
            else:
                self._computed(node, inner, tokens)
        if not waiting:
            raise self.sql.refused(
                "no feature is selected",
                self.statement.body.at(0),
                "an aggregate with OVER (…), AS name_1h",
            )
        self.entities: list[tuple[tuple[exp.Column, ...], Span]] = []
        items = [self._item(node, inner, tokens, grouped) for node, inner, tokens in waiting]
        return items, plain

    def _computed(self, node: exp.Expr, inner: exp.Expr, tokens: Tokens) -> None:
        if inner.find(exp.Window) is not None:
            raise self.sql.refused(
                "an expression over features is no feature: it would need them finished",
                tokens.span(),
                "each feature by itself",
                "select both features, and compute it where they are read",
            )
        if inner.find(exp.Subquery, exp.Select) is not None:
            raise self.sql.refused(
                "a subquery cannot be kept incrementally: " + ONE_SOURCE, tokens.span()
            )
        if not isinstance(node, exp.Alias):
            raise self.sql.refused(
                "an expression without a name", tokens.span(), "expression AS name"
            )
        self.logic.define(node.alias, inner)

    def _item(
        self,
        node: exp.Expr,
        inner: exp.Expr,
        tokens: Tokens,
        grouped: tuple[tuple[exp.Column, ...], Meant] | None,
    ) -> _Item:
        call, window = self._call(inner, tokens)
        if window is None and grouped is None:
            if call.name not in function_names():
                self.functions.aggregate(call)  # says which functions exist
            raise self.sql.refused(
                f"{call.node.this} has no window",
                call.span,
                "OVER (PARTITION BY … ORDER BY … RANGE …), or GROUP BY …, TUMBLE(…)",
            )
        if window is not None and grouped is not None:
            raise self.sql.refused(
                "OVER beside GROUP BY",
                tokens.span(),
                "one of them",
                "write two views: a feature set reads both",
            )
        if grouped is not None:
            columns, meant = grouped
            span = self.parts["GROUP BY"].span()
        else:
            assert window is not None
            columns, meant, span = self.windows.over(window, tokens_of_over(tokens))
        self.entities.append((columns, span))
        try:
            meant.plain()
        except DefinitionError as error:
            raise self.sql.refused(
                error.what, meant.span, error.expected, error.next_step
            ) from error
        aggregate = self.functions.aggregate(call)
        alias = node.alias if isinstance(node, exp.Alias) else None
        alias_node = node.args.get("alias") if isinstance(node, exp.Alias) else None
        alias_span = (
            node_span(alias_node) if isinstance(alias_node, exp.Expr) else None
        ) or tokens.span()
        return _Item(call, meant, alias, alias_span, aggregate)

    def _call(self, node: exp.Expr, tokens: Tokens) -> tuple[Call, exp.Window | None]:
        window = node if isinstance(node, exp.Window) else None
        if window is not None:
            node = window.this
        condition: exp.Expr | None = None
        ignore = False
        while not isinstance(node, exp.Anonymous):
            if isinstance(node, exp.Filter):
                condition, node = node.expression.this, node.this
            elif isinstance(node, exp.IgnoreNulls):
                ignore, node = True, node.this
            else:
                raise self._no_aggregate(node, tokens)
        ignore = ignore or any(
            isinstance(expression, exp.IgnoreNulls) for expression in node.expressions
        )
        meta: Mapping[str, Any] = node.meta
        return Call(node, Span(meta["start"], meta["end"] + 1), condition, ignore), window

    def _no_aggregate(self, node: exp.Expr, tokens: Tokens) -> DefinitionError:
        what = {"RespectNulls": "RESPECT NULLS", "WithinGroup": "WITHIN GROUP"}.get(
            type(node).__name__
        )
        if what:
            message = f"{what} is not there: nulls are skipped, and values need no order"
        elif isinstance(node, exp.Func):
            name = spelled(self.sql.text, node).lower()
            return self.sql.refused(
                f"unknown function {name!r}", tokens.span(), expected_names(), meant(name)
            )
        else:
            message = "this is no aggregate"
        return self.sql.refused(message, tokens.span(), expected_names())

    # ---- entity and features
    def _entity(self, plain: Sequence[tuple[exp.Column, Tokens]]) -> list[str]:
        first, span = self.entities[0]
        names = [self.logic.column_name(column) for column in first]
        for columns, other in self.entities[1:]:
            if {column.name for column in columns} != set(names):
                raise self.sql.refused(
                    (
                        f"PARTITION BY is {_listed([c.name for c in columns])} here and "
                        f"{_listed(names)} before"
                    ),
                    other,
                    "one entity in a view",
                    "write a view for each entity: a feature set reads both",
                )
        for column in first:
            if names.count(column.name) > 1:
                raise self.sql.refused(
                    f"the entity's column {column.name!r} stands twice",
                    span,
                    "each column once",
                    "remove one",
                )
            if column.name in self.logic.typed:
                raise self.sql.refused(
                    f"the entity {column.name!r} is computed",
                    span,
                    "columns of the source",
                    "produce the key as a column of its own",
                )
            self._check_key(column)
        option = self.statement.options.get("global")
        if truth(self.sql, option):
            if names:
                assert option is not None
                raise self.sql.refused(
                    "a global view has no entity", option.name_span, "no PARTITION BY"
                )
        elif not names:
            raise self.sql.refused(
                "there is no entity: the features would be of all events together",
                span,
                "PARTITION BY user_id" if "GROUP BY" not in self.parts else "GROUP BY user_id, …",
                (
                    "name the key's columns; or CREATE FEATURE VIEW … WITH (global = TRUE), if "
                    "that is what is meant"
                ),
            )
        for column, tokens in plain:
            self.logic.column_name(column)
            renamed = isinstance(column.parent, exp.Alias)
            if renamed and column.name in names:
                raise self.sql.refused(
                    "the entity under another name", tokens.span(), "the column's own name"
                )
            if not renamed and column.name not in (*names, self.source.timestamp):
                raise self.sql.refused(
                    f"{column.name!r} is neither the entity nor a feature",
                    tokens.span(),
                    f"columns of the entity ({_listed(names)}), and aggregates",
                    f"last({column.name}) is the newest value of a window",
                )
        return names

    def _check_key(self, column: exp.Column) -> None:
        probe = Feature("events", count(), ["1h"])
        try:
            plan_view(
                FeatureView("probe", self.source, [column.name], [probe]), plan_source(self.source)
            )
        except DefinitionError as error:
            raise self.sql.refused(
                error.what, self.logic.span_of(column), error.expected, error.next_step
            ) from error

    def _features(self, items: Sequence[_Item]) -> list[Feature]:
        by_name: dict[str, tuple[Aggregate, list[Window], Span]] = {}
        for item in items:
            name, window = self._named(item, item.meant)
            other = next(
                (
                    other_name
                    for other_name in by_name
                    if other_name != name and other_name.lower() == name.lower()
                ),
                None,
            )
            if other is not None:
                raise self.sql.refused(
                    f"features {other!r} and {name!r} differ in case only",
                    item.alias_span,
                    "names that differ in more, since SQL does not see case",
                    "rename one",
                )
            first = by_name.setdefault(name, (item.aggregate, [], item.call.span))
            if first[0] != item.aggregate:
                line, column = self.sql.line_and_column(first[2].start)
                raise self.sql.refused(
                    f"the feature {name!r} is {first[0].describe()} in line {line}, column "
                    f"{column}, "
                    f"and {item.aggregate.describe()} here",
                    item.alias_span,
                    "one aggregate for a feature, over any windows",
                    "give one of them another name",
                )
            if any(w.column_suffix() == window.column_suffix() for w in first[1]):
                raise self.sql.refused(
                    f"the column {name}_{window.column_suffix()} stands twice",
                    item.alias_span,
                    "each column once",
                )
            first[1].append(window)
        try:
            return [
                Feature(name, aggregate, windows, location=self.location)
                for name, (aggregate, windows, _) in by_name.items()
            ]
        except DefinitionError as error:
            at = next(
                (s for n, (_, _, s) in by_name.items() if repr(n) in error.what),
                self.statement.head,
            )
            raise self.sql.refused(error.what, at, error.expected, error.next_step) from error

    def _named(self, item: _Item, meant: Meant) -> tuple[str, Window]:
        if item.alias is None:
            if self.statement.kind == "view":
                raise self.sql.refused(
                    "a feature has a name",
                    item.call.span,
                    f"AS {_default_name(item)}_{meant.plain().column_suffix()}",
                )
            return _default_name(item), meant.plain()
        named = meant.named(item.alias)
        if named is None:
            suffix = meant.plain().column_suffix()
            raise self.sql.refused(
                f"a feature's column is named by its window, and {item.alias!r} does not say it",
                item.alias_span,
                f"AS {item.alias}_{suffix}",
                f"let the name end in _{suffix}: requests, training sets and Python call it so",
            )
        return named


_FEATURES = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def _is_feature(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).upper() not in BY_NAME
    return isinstance(node, _FEATURES)


def _default_name(item: _Item) -> str:
    columns = [name for name in columns_of(item.aggregate) if not name.startswith("_")]
    return "_".join([item.call.name, *columns])[:40]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
