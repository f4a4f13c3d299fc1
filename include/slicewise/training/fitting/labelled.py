"""Rows that a model is trained on: those of a spine that have a label which stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.errors import BadRequest
from slicewise.models.versions.manifest import Recipe
from slicewise.training.ranges import Ints
from slicewise.training.tables.instants import text_of
from slicewise.training.tables.locations import ICEBERG, SQL
from slicewise.training.tables.spine import Given
from slicewise.windows.durations import DAY_US, format_duration, parse_duration

Doubles = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Labelled:
    """Rows of a spine that a model is trained on, and how many are left out by reason."""

    spine: Given
    left_out: MappingProxyType[str, int]


def spine_of(text: str, folder: Path) -> str:
    """The spine as `dataset build` takes it: a file lies beside models.toml."""
    return text if text.startswith((ICEBERG, SQL)) else str(folder / text)


def labelled_rows(given: Given, recipe: Recipe, until_us: int | None, where: str) -> Labelled:
    """Rows with a label, of the days that the recipe names, in the order of their instants.

    until_us: instant from which on no row is taken. Rows are put in an order that their values
    give, so that a query whose rows come in another order trains the same model. Raises BadRequest.
    """
    if recipe.label not in given.table.column_names:
        raise BadRequest(
            f"the spine has no column {recipe.label!r}",
            where=f"{where} label",
            expected="one of " + ", ".join(given.table.column_names),
            next_step="name the column that holds the label",
        )
    labels = labels_of(given.label(recipe.label), recipe, where)
    keep, left = np.isfinite(labels), dict[str, int]()
    left["without a label"] = int((~keep).sum())

    def take(still: Chosen, reason: str) -> None:
        left[reason] = int((keep & ~still).sum())
        keep[:] &= still

    if until_us is not None:
        take(given.at_us < until_us, f"at {text_of(until_us)} or later")
    if recipe.matured and given.at_us[keep].size:
        newest_us = _newest(given, until_us) - parse_duration(recipe.matured)
        take(given.at_us <= newest_us, f"newer than {recipe.matured} before the newest")
    if recipe.days is not None and given.at_us[keep].size:
        length_us = round(recipe.days * DAY_US)
        oldest_us = int(given.at_us[keep].max()) - length_us
        take(given.at_us > oldest_us, f"older than the newest {format_duration(length_us)}")
    left = {reason: rows for reason, rows in left.items() if rows}
    if not keep.any():
        raise BadRequest(
            "no row of the spine is left to train on",
            where=where,
            expected="rows with a label; left out are "
            + (", ".join(f"{rows:,} {reason}" for reason, rows in left.items()) or "none of none"),
            next_step="see what the spine gives, and --until, days and matured",
        )
    table, at_us = given.table.filter(pa.array(keep)), given.at_us[keep]
    order = _order(table, at_us)
    spine = Given(table.take(order), at_us[order.to_numpy()], given.is_text)
    return Labelled(spine, MappingProxyType(left))


def labels_of(values: pa.ChunkedArray, recipe: Recipe, where: str) -> Doubles:
    """Labels as numbers; NaN where there is none. Raises BadRequest."""
    column = values.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(column, recipe, where)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not number and not pa.types.is_boolean(kind):
        raise BadRequest(
            f"the label {recipe.label!r} is {kind}",
            where=f"{where} label",
            expected="numbers, booleans, or texts of which `positive` names one",
            next_step="cast the column in the spine",
        )
    doubles = column.cast(pa.float64(), safe=False)
    labels = np.array(doubles.to_numpy(zero_copy_only=False), np.float64)
    labels[~np.isfinite(labels)] = np.nan
    return labels


def _of_texts(column: pa.Array, recipe: Recipe, where: str) -> Doubles:
    texts = column.to_pylist()
    different = sorted({text for text in texts if text is not None})
    if recipe.positive not in different and different:
        listed = ", ".join(different[:10])
        raise BadRequest(
            f"labels are texts ({listed}), and {recipe.positive!r} is none of them"
            if recipe.positive
            else f"labels are texts ({listed}), and nothing says which one a score of 1 stands for",
            where=f"{where} label, positive",
            expected="`positive` of the model: the label that a score of 1 stands for",
            next_step="name it in models.toml",
        )
    return np.array([np.nan if text is None else text == recipe.positive for text in texts])


def _newest(given: Given, until_us: int | None) -> int:
    at_us = given.at_us if until_us is None else given.at_us[given.at_us < until_us]
    return int(at_us.max())


def _order(table: pa.Table, at_us: Ints) -> pa.Array:
    """Positions by instant, then by the values of all columns that have an order."""
    flat = {f"{number}": column for number, column in enumerate(table.columns)}
    flat = {
        name: column
        for name, column in flat.items()
        if not (pa.types.is_nested(column.type) or pa.types.is_null(column.type))
    }
    keyed = pa.table({"at": pa.array(at_us), **flat})
    return pc.sort_indices(keyed, [(name, "ascending") for name in keyed.column_names])
