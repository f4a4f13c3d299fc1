"""Moments of a column are rational numbers of its exact power sums, rounded once at the end.

With A = n·Σx² − (Σx)² and so on, the central sums of n values are A/n, B/n² and C/n³, so that no
mean is ever rounded on the way (docs/adr/0030).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from slicewise.aggregates.exact.counting import tally
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
from slicewise.aggregates.kernel.limbs import Several
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.roots import root
from slicewise.aggregates.kernel.rounding import quotient, scaled
from slicewise.aggregates.kernel.values import ValueType, is_double, non_null
from slicewise.aggregates.operations import Failed
from slicewise.aggregates.registry import register
from slicewise.errors import DefinitionError


def check_choice(population: object, where: str) -> None:
    """Raises DefinitionError unless `population` is a boolean."""
    if not isinstance(population, bool):
        raise DefinitionError(
            f"population is {population!r}",
            where=where,
            expected="True (divide by n) or False (by n - 1)",
            next_step="leave population= out for a sample",
        )


def _variances(cls: type[Any]) -> Sequence[SeveralSums]:
    kinds = (pa.float64(), pa.int64(), pa.decimal128(12, 3), pa.decimal128(38, 6))
    return [cls("x", at % 2 == 1).bind({"x": kind}) for at, kind in enumerate(kinds)]


def _stddevs(cls: type[Any]) -> Sequence[SeveralSums]:
    return [cls("x").bind({"x": pa.float64()}), cls("x", True).bind({"x": pa.decimal128(12, 3)})]


def _shapes(cls: type[Any]) -> Sequence[SeveralSums]:
    kinds = (pa.float64(), pa.int64() if cls.kind == "skewness" else pa.decimal128(38, 6))
    return [cls("x").bind({"x": kind}) for kind in kinds]


@dataclass(frozen=True)
class PowerSums(SeveralSums):
    """Power sums of a column, for its moments: Σx^k of the values that are not null, k from 1 to a
    degree.

    Partial: `n`, and `s1`, `s2` and so on, Σx^k in units^k (1, 10^-scale, or 2^-1074 of doubles).
    """

    degree: ClassVar[int]
    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    @cached_property
    def degrees(self) -> dict[str, int]:
        return {f"s{k}": k for k in range(1, self.degree + 1)}

    def stored(self) -> Mapping[str, Any]:
        return {"form": "power_sums", "column": self.column, "degree": self.degree}

    @cached_property
    def unit(self) -> NumberUnit:
        """Unit of the column's numbers."""
        return NumberUnit.of(self.type_of(self.column))

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        x = operand(self.type_of(self.column), array)
        spans = [products.span(*[x] * k) for k in range(1, self.degree + 1)]
        plain = None
        if is_double(self.type_of(self.column)):
            plain = exact.of_doubles(ValueType(self.type_of(self.column)).store(array))
            if plain.most >= exact.SPECIAL_LANE:
                spans[0] = (plain.least, plain.most)
            else:
                plain = None

        def pieces(part: exact.Part) -> list[exact.Pieces]:
            powers = [x.factor(part)]
            for k in range(2, self.degree + 1):
                powers.append(products.times(powers[k // 2 - 1], powers[k - k // 2 - 1]))
            all_pieces = [products.pieces(power) for power in powers]
            return all_pieces if plain is None else [plain.pieces(part), *all_pieces[1:]]

        sums = exact.add_several(
            Several(x.size, spans, pieces), groups, n_groups, most_lanes(self.degree)
        )
        return self.columns(tally(groups, n_groups), sums)

    def terms(self, event: Event) -> Sequence[int] | None:
        value = event.columns[self.column]
        if value is None:
            return None
        if isinstance(value, float) and not math.isfinite(value):
            return [exact.special_of(value)] + [0] * (self.degree - 1)
        unit = self.unit.stored(value)
        return [unit**k for k in range(1, self.degree + 1)]

    def alike(self, sums: Sequence[Shifted]) -> tuple[list[int], int]:
        """Σx^k in powers of one unit, and its exponent of two."""
        shifts = [exact.LIMB_BITS * shift // k for k, (total, shift) in enumerate(sums, 1) if total]
        two = min(shifts, default=0)
        whole = [
            total << (exact.LIMB_BITS * shift - k * two) if total else 0
            for k, (total, shift) in enumerate(sums, 1)
        ]
        return whole, two + self.unit.two


@dataclass(frozen=True)
class Divided(PowerSums):
    """Base of variance and standard deviation."""

    degree = 2
    population: bool = False

    def __post_init__(self) -> None:
        check_choice(self.population, f"{self.kind}({self.column!r})")

    def squared(self, n: int, sums: Sequence[Shifted]) -> tuple[int, int, int] | float | None:
        """The variance as (numerator, denominator, exponent of two); or the value that there is
        instead."""
        if n == 1 and not self.population:
            return None
        if not_finite(sums[0]):
            return math.nan
        (s1, s2), two = self.alike(sums)
        by = n * (n if self.population else n - 1)
        return n * s2 - s1 * s1, by * 100**self.unit.ten, 2 * two


@register(_variances)
@dataclass(frozen=True)
class Variance(Divided):
    """Variance of the values that are not null: Σ(x − mean)² / (n − 1), or / n of a population.

    SQL's VAR_SAMP and VAR_POP: null without any value, and of one value that is no population. The
    double nearest to the exact rational, of every number type; `overflow` beyond the largest.
    """

    kind = "variance"

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        squared = self.squared(n, sums)
        if not isinstance(squared, tuple):
            return squared
        numerator, denominator, two = squared
        return rounded(scaled(numerator, two, denominator))


@register(_stddevs)
@dataclass(frozen=True)
class Stddev(Divided):
    """Square root of the variance, rounded once: SQL's STDDEV_SAMP, or STDDEV_POP of a
    population."""

    kind = "stddev"

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        squared = self.squared(n, sums)
        if not isinstance(squared, tuple):
            return squared
        numerator, denominator, two = squared
        return rounded(root(numerator, denominator, two // 2))


@dataclass(frozen=True)
class Shape(PowerSums):
    """Base of skewness and kurtosis, which are asked for together: sums up to the fourth power."""

    degree = 4


@register(_shapes)
@dataclass(frozen=True)
class Skewness(Shape):
    """Population skewness, as in Spark: √n · Σ(x − mean)³ / (Σ(x − mean)²)^1.5.

    Null without any value and where all are equal; the double nearest to the exact number.
    """

    kind = "skewness"

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        if not_finite(sums[0]):
            return math.nan
        (s1, s2, s3, _), _ = self.alike(sums)
        a = n * s2 - s1 * s1
        if a == 0:
            return None
        b = n * n * s3 - 3 * n * s1 * s2 + 2 * s1**3
        size = rounded(root(b * b, a**3))
        return -size if b < 0 and not isinstance(size, Failed) and size else size


@register(_shapes)
@dataclass(frozen=True)
class Kurtosis(Shape):
    """Population excess kurtosis, as in Spark: n · Σ(x − mean)⁴ / (Σ(x − mean)²)² − 3.

    Null without any value and where all are equal; the double nearest to the exact number.
    """

    kind = "kurtosis"

    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        if not_finite(sums[0]):
            return math.nan
        (s1, s2, s3, s4), _ = self.alike(sums)
        a = n * s2 - s1 * s1
        if a == 0:
            return None
        c = n**3 * s4 - 4 * n * n * s1 * s3 + 6 * n * s1 * s1 * s2 - 3 * s1**4
        return rounded(quotient(c - 3 * a * a, a * a))
