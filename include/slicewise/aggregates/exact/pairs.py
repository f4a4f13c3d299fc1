"""The relation of two columns is a rational number of exact sums and products, rounded once at the
end."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.exact.counting import tally
from slicewise.aggregates.exact.moments import check_choice
from slicewise.aggregates.exact.several import (
    NumberUnit,
    SeveralSums,
    Shifted,
    most_lanes,
    not_finite,
    operand,
    rounded,
)
from slicewise.aggregates.kernel import limbs as exact
from slicewise.aggregates.kernel import products
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.limbs import Numbers, Several
from slicewise.aggregates.kernel.products import Operand
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.roots import root
from slicewise.aggregates.kernel.rounding import scaled
from slicewise.aggregates.kernel.values import ValueType, is_double
from slicewise.aggregates.operations import Failed
from slicewise.aggregates.registry import register
from slicewise.errors import DefinitionError

SECONDS = NumberUnit(0, 6)
"""Event times are integers of microseconds, which count as seconds."""
DEGREES = {"x": 1, "y": 1, "xx": 2, "xy": 2, "yy": 2}
OUTPUTS = ("slope", "intercept", "r2")


def _types() -> list[dict[str, pa.DataType]]:
    return [
        {"x": pa.float64(), "y": pa.float64()},
        {"x": pa.int64(), "y": pa.float64()},
        {"x": pa.decimal128(12, 3), "y": pa.int64()},
    ]


def _two(cls: type[Any]) -> Sequence[SeveralSums]:
    return [cls("x", "y").bind(types) for types in _types()[:2]]


def _covariances(cls: type[Any]) -> Sequence[SeveralSums]:
    return [cls("y", "x", at % 2 == 1).bind(types) for at, types in enumerate(_types())]


def _trends(cls: type[Any]) -> Sequence[SeveralSums]:
    over = [
        cls("y", "x", output).bind(types) for output, types in zip(OUTPUTS, _types(), strict=True)
    ]
    in_time = [
        cls("x", None, "slope").bind({"x": pa.float64()}),
        cls("x", None, "intercept").bind({"x": pa.int64()}),
    ]
    return [*over, *in_time]


@dataclass(frozen=True)
class Related:
    """n, and the sums of x, y and of their central products times n: n·Σ(x − mean)(y − mean) is
    `xy`.

    Integers in units of x, of y, and of both: 2^x_two is the unit of x.
    """

    x: int
    y: int
    xx: int
    xy: int
    yy: int
    x_two: int
    y_two: int


@dataclass(frozen=True)
class CrossSums(SeveralSums):
    """Sums over two columns: Σx, Σy, Σx², Σxy and Σy² of the events where neither is null.

    x is the column whose name sorts first, so that all aggregates of two columns share one partial;
    or event time.
    """

    @property
    @abstractmethod
    def _pair(self) -> tuple[str | None, str]:
        """Names of x, None for event time, and of y."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in self._pair if name is not None)

    @property
    def degrees(self) -> dict[str, int]:
        return DEGREES

    def stored(self) -> Mapping[str, Any]:
        x, y = self._pair
        return {"form": "cross_sums", "x": x, "y": y}

    @cached_property
    def units(self) -> tuple[NumberUnit, NumberUnit]:
        """Units of x and y."""
        x, y = self._pair
        return SECONDS if x is None else NumberUnit.of(self.type_of(x)), NumberUnit.of(
            self.type_of(y)
        )

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        valid = np.ones(len(groups), bool)
        for name in self.inputs:
            if rows.columns[name].null_count:
                valid &= rows.columns[name].is_valid().to_numpy(zero_copy_only=False)
        kept = None if valid.all() else valid
        groups = groups if kept is None else groups[kept]
        (x, plain_x), (y, plain_y) = (self._operand(name, rows, kept) for name in self._pair)
        spans = [products.span(*factors) for factors in ([x], [y], [x, x], [x, y], [y, y])]
        for at, plain in enumerate((plain_x, plain_y)):
            if plain is not None:
                spans[at] = (plain.least, plain.most)

        def pieces(part: exact.Part) -> list[exact.Pieces]:
            a, b = x.factor(part), y.factor(part)
            times = products.times
            all_pieces = [
                products.pieces(factors)
                for factors in (a, b, times(a, a), times(a, b), times(b, b))
            ]
            for at, plain in enumerate((plain_x, plain_y)):
                if plain is not None:
                    all_pieces[at] = plain.pieces(part)
            return all_pieces

        sums = exact.add_several(
            Several(len(groups), spans, pieces), groups, n_groups, most_lanes(2)
        )
        return self.columns(tally(groups, n_groups), sums)

    def _operand(self, name: str | None, rows: Rows, kept: Any) -> tuple[Operand, Numbers | None]:
        """The numbers of one side; and, where NaN or infinities are among them, their sum's
        numbers."""
        if name is None:
            return products.of_integers(rows.time if kept is None else rows.time[kept]), None
        array = rows.columns[name] if kept is None else rows.columns[name].filter(pa.array(kept))
        kind = self.type_of(name)
        plain = exact.of_doubles(ValueType(kind).store(array)) if is_double(kind) else None
        return operand(
            kind, array
        ), plain if plain is not None and plain.most >= exact.SPECIAL_LANE else None

    def terms(self, event: Event) -> Sequence[int] | None:
        values = [event.time if name is None else event.columns[name] for name in self._pair]
        if None in values:
            return None
        odd = [isinstance(value, float) and not math.isfinite(value) for value in values]
        x, y = (
            0 if special else value if name is None else unit.stored(value)
            for name, value, unit, special in zip(self._pair, values, self.units, odd, strict=True)
        )
        first, second = (
            exact.special_of(value) if special else term
            for value, term, special in zip(values, (x, y), odd, strict=True)
        )
        return [first, second, x * x, x * y, y * y]

    def related(self, n: int, sums: Sequence[Shifted]) -> Related | None:
        """The result of sums of finite numbers; None where a number is not finite."""
        if not_finite(sums[0]) or not_finite(sums[1]):
            return None
        x, y, xx, xy, yy = (exact.LIMB_BITS * shift if total else None for total, shift in sums)
        a = min(
            [start for start in (x, None if xx is None else xx // 2) if start is not None],
            default=0,
        )
        b = min(
            [start for start in (y, None if yy is None else yy // 2) if start is not None],
            default=0,
        )
        if xy is not None and a + b > xy:
            a -= a + b - xy
        wanted = (a, b, 2 * a, a + b, 2 * b)
        sx, sy, sxx, sxy, syy = (
            total << (exact.LIMB_BITS * shift - unit) if total else 0
            for (total, shift), unit in zip(sums, wanted, strict=True)
        )
        xs, ys = self.units
        return Related(
            sx, sy, n * sxx - sx * sx, n * sxy - sx * sy, n * syy - sy * sy, a + xs.two, b + ys.two
        )


def _check_names(x: object, y: object, where: str) -> None:
    if x == y:
        raise DefinitionError(
            f"both columns are {x!r}",
            where=where,
            expected="two columns",
            next_step="of one column there is variance()",
        )


@dataclass(frozen=True)
class Mutual(CrossSums):
    """Base of covariance and correlation: neither side is before the other."""

    x: str
    y: str

    def __post_init__(self) -> None:
        _check_names(self.x, self.y, self.describe())

    @property
    def _pair(self) -> tuple[str | None, str]:
        first, second = sorted((self.x, self.y))
        return first, second


@register(_covariances)
@dataclass(frozen=True)
class Covariance(Mutual):
    """Covariance of two columns where neither is null: Σ(x − mean)(y − mean) / (n − 1), or / n of a
    population.

    SQL's COVAR_SAMP and COVAR_POP: null without any pair, and of one that is no population. The
    double nearest to the exact rational; `overflow` beyond the largest.
    """

    kind = "covariance"
    population: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.population, self.describe())

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        if n == 1 and not self.population:
            return None
        related = self.related(n, sums)
        if related is None:
            return math.nan
        by = n * (n if self.population else n - 1) * 10 ** sum(unit.ten for unit in self.units)
        return rounded(scaled(related.xy, related.x_two + related.y_two, by))


@register(_two)
@dataclass(frozen=True)
class Correlation(Mutual):
    """Pearson's correlation of two columns where neither is null, from −1 to 1; SQL's CORR.

    Null without any pair and where either column is one value throughout; the double nearest to
    the exact number.
    """

    kind = "correlation"

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        related = self.related(n, sums)
        if related is None:
            return math.nan
        if related.xx == 0 or related.yy == 0:
            return None
        size = rounded(root(related.xy * related.xy, related.xx * related.yy))
        return -size if related.xy < 0 and not isinstance(size, Failed) and size else size


@register(_trends)
@dataclass(frozen=True)
class LinearTrend(CrossSums):
    """The line of least squares through (over, column), or through (event time in seconds, column).

    output: `slope`, its rise per unit of `over` (per second); `intercept`, its height where `over`
    is 0 (at 1970-01-01T00:00:00Z); `r2`, the share of the column's variance that it explains. SQL's
    REGR_SLOPE, REGR_INTERCEPT and REGR_R2 (column, over): null without any pair and where `over` is
    one value throughout; `r2` is 1 where only the column is. The double nearest to the exact
    rational; `overflow` beyond the largest.
    """

    kind = "linear_trend"
    column: str
    over: str | None = None
    output: str = "slope"

    def __post_init__(self) -> None:
        _check_names(self.column, self.over, self.describe())
        if self.output not in OUTPUTS:
            raise DefinitionError(
                f"output is {self.output!r}",
                where=self.describe(),
                expected="one of " + ", ".join(OUTPUTS),
                next_step="leave output= out for the slope",
            )

    @property
    def _pair(self) -> tuple[str | None, str]:
        if self.over is None:
            return None, self.column
        first, second = sorted((self.column, self.over))
        return first, second

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        related = self.related(n, sums)
        if related is None:
            return math.nan
        x, y, xx, yy = related.x, related.y, related.xx, related.yy
        x_two, y_two, (x_unit, y_unit) = related.x_two, related.y_two, self.units
        if self._pair[0] not in (None, self.over):
            x, y, xx, yy, x_two, y_two, x_unit, y_unit = y, x, yy, xx, y_two, x_two, y_unit, x_unit
        if xx == 0:
            return None
        if self.output == "r2":
            return 1.0 if yy == 0 else rounded(scaled(related.xy * related.xy, 0, xx * yy))
        if self.output == "slope":
            return rounded(scaled(related.xy * 10**x_unit.ten, y_two - x_two, xx * 10**y_unit.ten))
        return rounded(scaled(y * xx - related.xy * x, y_two, n * xx * 10**y_unit.ten))
