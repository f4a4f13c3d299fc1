"""Definitions become units: the slice, levels and retention follow from the windows alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from slicewise.aggregates import Aggregate
from slicewise.aggregates.sketches.membership import answer_type, membership_of
from slicewise.errors import DefinitionError, SlicewiseError
from slicewise.features.declare.definitions import FeatureSet, FeatureView, KafkaSource
from slicewise.features.declare.event_list import kept_for
from slicewise.features.declare.project import Project
from slicewise.features.naming import OF_QUESTIONS, refuse_cases
from slicewise.features.plan.build import Slices, build_unit
from slicewise.features.plan.deployment import Deployment, PlannedSet
from slicewise.features.plan.descriptions import described
from slicewise.features.plan.expectations import expectations
from slicewise.features.plan.fingerprint import condition_column
from slicewise.features.plan.finite import may_be_infinite
from slicewise.features.plan.leaderboard import plan_leaderboard
from slicewise.features.plan.unit import Emission, Source, StorageUnit, shared
from slicewise.features.rowlogic.expression import RowExpression
from slicewise.features.rowlogic.functions.dialects import MAX_DOUBLE
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.features.schema.dedupe import refuse_by_event
from slicewise.features.schema.types import (
    DOUBLE,
    TIMESTAMP,
    arrow_type,
    column_type,
    decimal_parts,
    element_type,
    time_form,
    wire_type,
)
from slicewise.names import listed, nearest
from slicewise.windows.durations import FOR_EVER_US, HOUR_US, format_duration, parse_duration
from slicewise.windows.kinds import as_window
from slicewise.windows.lifetime import LIFETIME
from slicewise.windows.slices import MAX_RATIO, check_slice, default_slice
from slicewise.windows.sliding import Sliding
from slicewise.windows.window import Window

# A Python value of exactly this type is a value of that Arrow type.
_PLAIN: Mapping[type, pa.DataType] = {float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_Wanted = tuple[str, str, Window, Aggregate]
_Column = TypeVar("_Column", RowExpression, RowFunction)


def plan(project: Project) -> Deployment:
    """The deployment of a project; DefinitionError for whatever is wrong in it."""
    if not project.views:
        raise DefinitionError(
            f"project {project.name!r} declares no view",
            expected="at least one sw.FeatureView at the top level of its module",
            next_step="declare one; `slicewise init` writes an example",
        )
    _unique([view.name for view in project.views], "view", [v.subject for v in project.views])
    sets = project.feature_sets
    _unique([feature_set.name for feature_set in sets], "feature set", [s.where for s in sets])
    sources = _sources(project.views)
    by_name = {source.name: source for source in sources}
    planned = (
        unit for view in project.views for unit in plan_view(view, by_name[view.source.name])
    )
    units = shared([replace(unit, project=project.name) for unit in planned])
    bare = Deployment(project.name, sources, units, ())
    named = tuple(replace(_planned_set(s, bare), project=project.name) for s in sets)
    leaderboards = project.leaderboards
    _unique(
        [leaderboard.name for leaderboard in leaderboards],
        "leaderboard",
        [b.where for b in leaderboards],
    )
    ranked = tuple(
        replace(plan_leaderboard(leaderboard, bare.resolve), project=project.name)
        for leaderboard in leaderboards
    )
    return Deployment(
        project.name, sources, units, named, ranked, expectations(project), described(project)
    )


def plan_source(source: KafkaSource) -> Source:
    """A declared source as data."""
    forms = (time_form(kind) for kind in source.schema.values() if column_type(kind) == TIMESTAMP)
    paths = source.column_paths()
    return Source(
        name=source.name,
        topic=source.topic or source.name,
        columns=tuple((name, column_type(kind)) for name, kind in source.schema.items()),
        timestamp=source.timestamp,
        time_form=next(forms, "us"),
        max_lateness_us=parse_duration(source.max_lateness),
        max_ahead_us=parse_duration(source.max_ahead),
        required=tuple(source.required),
        allow_nan=tuple(source.allow_nan),
        owner=source.owner,
        wire=tuple(
            (n, wire_type(kind))
            for n, kind in source.schema.items()
            if wire_type(kind) != column_type(kind)
        ),
        paths=tuple((name, path) for name, path in paths.items() if path != (name,)),
        format=source.format,
        registry=source.registry,
        dedupe=None
        if source.dedupe is None
        else source.dedupe.planned(source.schema, source.where),
        history_until_us=source.history_until_us,
    )


def plan_view(view: FeatureView, source: Source) -> tuple[StorageUnit, ...]:
    """The units of a view: one, or more where its windows' own slices differ over 60-fold; beside
    them, one event list for its exact windows."""
    entity = tuple(_entity(view, column, source) for column in view.entity)
    where, columns = _row_logic(view, source)
    functions = _functions(view, source, columns)
    wanted: list[_Wanted] = []
    conditions: dict[str, RowExpression] = {}
    for feature in view.features:
        subject = f"feature {feature.name!r} of {view.subject}"
        _check_question(feature.aggregate, view, subject)
        aggregate, named = _conditions(feature.aggregate, source, columns, subject)
        conditions |= {name: e for name, e in named.items() if name not in conditions}
        computed_kinds = {n: e.kind for n, e in (columns | conditions).items()} | {
            n: f.kind for n, f in functions.items()
        }
        _check_aggregate(aggregate, source, computed_kinds, subject)
        for window in map(as_window, feature.windows):
            column = f"{feature.name}_{window.column_suffix()}"
            check_window(feature.aggregate, window, subject)
            wanted.append((column, feature.name, window, aggregate))
    exact = [entry for entry in wanted if entry[2].by_events]
    if source.dedupe is not None:
        refuse_by_event([entry[0] for entry in exact], view.emit is not None, view.subject)
    sliced = [entry for entry in wanted if not entry[2].by_events]
    computed = columns | conditions
    # What refuses a row refuses it in the whole view: each unit computes it, whatever its own
    # features read.
    made = _used(functions, wanted)
    read = _used(computed, wanted, dict(made))
    refusing = {name for name, e in read if may_be_infinite(e.tree, source.allow_nan)}
    emission = _emission(view, sliced)
    units = [
        build_unit(
            source,
            view=view.name,
            entity=entity,
            per_partition=view.spread or not entity,
            where=where,
            columns=_used(computed, sliced, dict(made), refusing),
            functions=made,
            features=tuple(group),
            retention_us=max(w.reach_us(slice_us) for _, _, w, _ in group) + source.max_lateness_us,
            owner=view.owner,
            kept=Slices(slice_us, _levels(group, slice_us), emission),
        )
        for slice_us, group in (_groups(view, sliced) if sliced else ())
    ]
    if exact:
        kept = kept_for(
            (entry[2] for entry in exact), source.max_lateness_us, view.capacity, view.subject
        )
        listed = build_unit(
            source,
            view=view.name,
            entity=entity,
            per_partition=view.spread or not entity,
            where=where,
            columns=_used(computed, exact, dict(made), refusing),
            functions=made,
            features=tuple(exact),
            retention_us=kept.reach_us,
            owner=view.owner,
            kept=kept,
        )
        units.append(listed)
    return tuple(units)


def _emission(view: FeatureView, sliced: Sequence[_Wanted]) -> Emission | None:
    """Publications of the view; DefinitionError where nothing of it can be published."""
    if view.emit is None:
        return None
    assert not isinstance(view.emit, str)  # made so by the view
    if not any(
        window.ends_complete and membership_of(aggregate) is None
        for _, _, window, aggregate in sliced
    ):
        raise DefinitionError(
            "emit= on a view none of whose results can be published",
            where=view.subject,
            expected=(
                "a value over a sliding, tumbling or hopping window, neither open nor with an "
                "offset"
            ),
            next_step="declare such a window, or leave emit= out",
        )
    return Emission(view.emit.topic, *view.emit.times_us(view.subject))


def _used(
    columns: Mapping[str, _Column],
    wanted: Sequence[_Wanted],
    functions: Mapping[str, RowFunction] = MappingProxyType({}),
    beside: Collection[str] = (),
) -> tuple[tuple[str, _Column], ...]:
    """The computed columns that these features read, or that row functions do; and those beside
    them."""
    names = {column for *_, aggregate in wanted for column in aggregate.inputs} | {*beside}
    names |= {column for function in functions.values() for column in function.reads}
    return tuple((name, e) for name, e in columns.items() if name in names)


def _sources(views: Sequence[FeatureView]) -> tuple[Source, ...]:
    declared_sources: dict[str, tuple[KafkaSource, Source]] = {}
    for view in views:
        declared = view.source
        first = declared_sources.setdefault(declared.name, (declared, plan_source(declared)))
        words = [(one.description, one.tags) for one in (first[0], declared)]
        if first[1] != plan_source(declared) or words[0] != words[1]:
            raise DefinitionError(
                f"two different sources are named {declared.name!r}",
                where=f"{first[0].where} and {declared.where}",
                expected="one definition for a name",
                next_step="share one object, or rename one",
            )
    _unique(
        list(declared_sources),
        "source",
        [declared.where for declared, _ in declared_sources.values()],
    )
    sources = tuple(planned for _, planned in declared_sources.values())
    for source in sources:
        same = [other.name for other in sources if other.topic == source.topic]
        if len(same) > 1:
            raise DefinitionError(
                f"topic {source.topic!r} is read by several sources: {', '.join(same)}",
                expected="one source for a topic",
                next_step="merge their schemas into one source",
            )
    return sources


def _entity(view: FeatureView, column: str, source: Source) -> tuple[str, str]:
    kinds = dict(source.columns)
    if column not in kinds:
        raise DefinitionError(
            f"the entity names {column!r}, which is no column of source {source.name!r}",
            where=view.subject,
            expected="columns of the source: " + listed(kinds),
            next_step=nearest(column, kinds),
        )
    if kinds[column] == DOUBLE or decimal_parts(kinds[column]) or element_type(kinds[column]):
        raise DefinitionError(
            f"the entity column {column!r} is {kinds[column]}",
            where=view.subject,
            expected="string, long, boolean, date or an instant: equal keys must be equal bytes",
            next_step="produce the key as string or long",
        )
    return column, kinds[column]


def _row_logic(
    view: FeatureView, source: Source
) -> tuple[RowExpression | None, dict[str, RowExpression]]:
    kinds = dict(source.columns)
    columns: dict[str, RowExpression] = {}
    for name, text in view.columns.items():
        if isinstance(text, RowFunction):
            continue
        subject = f"column {name!r} of {view.subject}"
        columns[name] = parse_expression(text, kinds, where=subject, defined=columns)
    if view.where is None:
        return None, columns
    subject = f"where of {view.subject}"
    return parse_expression(
        view.where, kinds, where=subject, defined=columns, boolean=True
    ), columns


def _functions(
    view: FeatureView, source: Source, columns: Mapping[str, RowExpression]
) -> dict[str, RowFunction]:
    kinds = {
        **dict(source.columns),
        **{name: expression.kind for name, expression in columns.items()},
    }
    functions: dict[str, RowFunction] = {}
    for name, function in view.columns.items():
        if not isinstance(function, RowFunction):
            continue
        subject = f"column {name!r} of {view.subject}"
        for column in function.reads:
            if column not in kinds:
                raise DefinitionError(
                    f"row function {function.name!r} reads unknown column {column!r}",
                    where=subject,
                    expected="arguments named as columns of the source or of row logic: "
                    + listed(kinds),
                    next_step=nearest(column, kinds),
                )
        functions[name] = function.bind(kinds)
    return functions


def _conditions(
    aggregate: Aggregate, source: Source, columns: Mapping[str, RowExpression], subject: str
) -> tuple[Aggregate, dict[str, RowExpression]]:
    """The aggregate with a computed column for each of its conditions, and those columns."""
    conditions: dict[str, RowExpression] = {}

    def named(text: str) -> str:
        where, kinds = f"where of {subject}", dict(source.columns)
        condition = parse_expression(text, kinds, where=where, defined=columns, boolean=True)
        name = condition_column(condition)
        conditions[name] = condition
        return name

    return aggregate.resolve(named), conditions


def _check_question(aggregate: Aggregate, view: FeatureView, subject: str) -> None:
    """The reader's row has one column of a name: the entity's, or what is asked."""
    membership = membership_of(aggregate)
    if membership is not None and membership.question in {*view.entity, *OF_QUESTIONS}:
        own = (
            "a column of the view's entity"
            if membership.question in view.entity
            else "how a row is read"
        )
        raise DefinitionError(
            f"{aggregate.describe()} is asked by {membership.question!r}, which is {own}",
            where=subject,
            expected="a column that is no entity column, and has another name than "
            + ", ".join(sorted(OF_QUESTIONS)),
            next_step="an entity sees no other value of its own key; name another column",
        )


def _check_aggregate(
    aggregate: Aggregate, source: Source, computed: Mapping[str, str], subject: str
) -> None:
    kinds = {**dict(source.columns), **computed}
    named = [name for name in kinds if not name.startswith("_")]  # without conditions
    for column in aggregate.inputs:
        if column not in kinds:
            raise DefinitionError(
                f"{aggregate.describe()} reads unknown column {column!r}",
                where=subject,
                expected="a column of the source or of the view: " + listed(named),
                next_step=nearest(column, named),
            )
        if column in source.allow_nan and aggregate.core.kind != "count":
            raise DefinitionError(
                f"{aggregate.describe()} reads {column!r}, which allows NaN and infinities",
                where=subject,
                expected="finite values; sw.count alone reads a column that allows others",
                next_step="compute a column of what is finite: "
                f'"CASE WHEN ABS({column}) <= {MAX_DOUBLE} THEN {column} END"',
            )
    try:
        aggregate.bind({name: arrow_type(kind) for name, kind in kinds.items()})
    except SlicewiseError as error:
        raise DefinitionError(
            error.what,
            where=subject,
            expected=error.expected,
            next_step=error.next_step or "choose another column or aggregate",
        ) from error


def check_window(aggregate: Aggregate, window: Window, subject: str) -> None:
    """Raises DefinitionError where the aggregate cannot answer a window of this length."""
    expected = aggregate.answers(FOR_EVER_US if window.unbounded else window.length_us)
    if expected is not None:
        raise DefinitionError(
            (
                f"{aggregate.describe()} over "
                f"{LIFETIME if window.unbounded else format_duration(window.length_us)}"
            ),
            where=subject,
            expected=expected,
            next_step="declare a shorter window, or change the aggregate's parameters",
        )


def _groups(view: FeatureView, wanted: Sequence[_Wanted]) -> list[tuple[int, list[_Wanted]]]:
    windows = [window for _, _, window, _ in wanted]
    try:
        if view.slice is not None:
            slice_us = parse_duration(view.slice)
            check_slice(slice_us, windows)
            return [(slice_us, list(wanted))]
        own = {window: default_slice([window]) for window in windows}
        groups: list[list[_Wanted]] = []
        for entry in sorted(wanted, key=lambda item: own[item[2]]):
            if groups and own[entry[2]] <= MAX_RATIO * own[groups[-1][0][2]]:
                groups[-1].append(entry)
            else:
                groups.append([entry])
        sliced = [
            (default_slice([w for _, _, w, _ in group]), [e for e in wanted if e in group])
            for group in groups
        ]
        for slice_us, group in sliced:
            for _, _, window, _ in group:
                window.check_slice(slice_us)
        return sliced
    except DefinitionError as error:
        raise DefinitionError(
            error.what, where=view.subject, expected=error.expected, next_step=error.next_step
        ) from error


def _levels(group: Sequence[_Wanted], slice_us: int) -> tuple[int, ...]:
    resolutions = {w.resolution(slice_us) for _, _, w, _ in group if isinstance(w, Sliding)}
    return tuple(sorted(level for level in resolutions if slice_us < level < HOUR_US))


def _planned_set(declared: FeatureSet, deployment: Deployment) -> PlannedSet:
    outputs: dict[str, pa.DataType] = {}
    for ref in declared.features:
        try:
            _, feature = deployment.resolve(ref)
        except SlicewiseError as error:
            raise DefinitionError(
                f"{ref!r}: {error.what}",
                where=declared.where,
                expected=error.expected,
                next_step=error.next_step,
            ) from error
        outputs[ref] = answer_type(feature.aggregate)
    if declared.log is not None:
        _check_log(declared, declared.log, deployment)
    return PlannedSet(
        declared.name,
        tuple(declared.features),
        tuple(sorted(_defaults(declared, outputs))),
        declared.owner,
        on_failure=declared.on_failure,
        max_staleness_us=None
        if declared.max_staleness is None
        else parse_duration(declared.max_staleness),
        log=None if declared.log is None else declared.log.name,
        log_rate=float(declared.log_rate),
    )


def _check_log(declared: FeatureSet, log: KafkaSource, deployment: Deployment) -> None:
    sources = {source.name: source for source in deployment.sources}
    if log.name not in sources:
        raise DefinitionError(
            f"answers are logged to source {log.name!r}, which no view reads",
            where=declared.where,
            expected="a view over it: what no view reads is not archived",
            next_step=f"declare one, as sw.request_view({log.name})",
        )
    if sources[log.name] != plan_source(log):
        raise DefinitionError(
            f"two different sources are named {log.name!r}",
            where=f"{declared.where} and {log.where}",
            expected="one definition for a name",
            next_step="share one object, or rename one",
        )


def _defaults(declared: FeatureSet, outputs: dict[str, pa.DataType]) -> list[tuple[str, object]]:
    defaults: list[tuple[str, object]] = []
    for key, value in declared.defaults.items():
        refs = [ref for ref in outputs if key in (ref, ref.partition(":")[2])]
        if len(refs) != 1:
            raise DefinitionError(
                f"the default {key!r} names {'several features' if refs else 'no feature'}",
                where=declared.where,
                expected="one of " + listed(refs or outputs),
                next_step=nearest(key, outputs),
            )
        try:
            if isinstance(value, float) and pa.types.is_integer(outputs[refs[0]]):
                raise TypeError(value)  # Arrow would cut its fraction off
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(value)  # no number of JSON
            if _PLAIN.get(type(value)) != outputs[refs[0]]:
                # imports pandas, half a second, where that is installed
                pa.scalar(value, outputs[refs[0]])
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
            raise DefinitionError(
                f"the default {value!r} of {refs[0]!r} is no {outputs[refs[0]]}",
                where=declared.where,
                expected=f"a value of type {outputs[refs[0]]}",
                next_step="give a value of that type, or leave the default out",
            ) from error
        defaults.append((refs[0], value))
    return defaults


def _unique(names: Sequence[str], what: str, subjects: Sequence[str]) -> None:
    lowered = [name.lower() for name in names]
    same = [
        (name, subject)
        for name, subject in zip(names, subjects, strict=True)
        if lowered.count(name.lower()) > 1
    ]
    refuse_cases([name for name, _ in same], what, " and ".join(subject for _, subject in same))
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(
                f"{what} {name!r} is defined twice",
                where=" and ".join(p for n, p in zip(names, subjects, strict=True) if n == name),
                expected="each name once",
                next_step="rename one",
            )
