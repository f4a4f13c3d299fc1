"""The value of one column: exactly what the wire says, or a reason why the record is bad.

Each rule reads `j_<name>` (the value as a variant, null when absent) and `k_<name>` (its JSON type
as schema_of_variant names it; VOID for null) and gives the typed value, null where it is bad, and
the reason to give then, which is evaluated only where it is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from slicewise.features.plan.unit import Source

END_OF_TIME_US = 253_402_300_800_000_000
"""Event times lie in [1970, 10000): the first microsecond that is refused."""

_SPARK_TYPES = {
    "string": "string",
    "int64": "bigint",
    "long": "bigint",
    "double": "double",
    "boolean": "boolean",
    "bool": "boolean",
    "timestamp_us": "bigint",
    "date": "date",
    "float": "double",
}
_WIDTHS = re.compile(r"(u?)int(8|16|32)")
_ARRAY = re.compile(r"array<(.+)>")
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_RFC3339 = (
    r"\A\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?"
    r"([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)\z"
)
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+), ?(\d+)\)")


def spark_type(kind: str) -> str:
    """The Spark SQL type that holds a schema type; timestamp_us is a long of microseconds."""
    decimal, array = _DECIMAL.fullmatch(kind), _ARRAY.fullmatch(kind)
    if array:
        return f"array<{spark_type(array[1])}>"
    if _WIDTHS.fullmatch(kind):
        return "bigint"
    return f"decimal({decimal[1]},{decimal[2]})" if decimal else _SPARK_TYPES[kind]


Rule = tuple[Column, Column]


def value_of(name: str, kind: str, source: Source) -> Column:
    """`c_<name>`: the typed value of a column of schema type `kind`; null where absent or bad."""
    return _rule(F.col(f"j_{name}"), F.col(f"k_{name}"), name, _wire(name, kind, source), source)[
        0
    ].alias(f"c_{name}")


def reason_of(name: str, kind: str, source: Source) -> tuple[Column, Column]:
    """(is the value there but bad, the reason), over `c_<name>` of `value_of`."""
    json_type = F.col(f"k_{name}")
    bad = F.col(f"c_{name}").isNull() & _there(json_type)
    rule = _rule(F.col(f"j_{name}"), json_type, name, _wire(name, kind, source), source)
    return bad, F.concat(rule[1], F.lit(f":{name}"))


def _there(json_type: Column) -> Column:
    return json_type.isNotNull() & (json_type != "VOID")


def _wire(name: str, kind: str, source: Source) -> str:
    return dict(source.wire).get(name, kind)


def _rule(value: Column, json_type: Column, name: str, kind: str, source: Source) -> Rule:
    array, width = _ARRAY.fullmatch(kind), _WIDTHS.fullmatch(kind)
    if array:
        return _array(
            value, json_type, lambda e: _rule(e, F.schema_of_variant(e), name, array[1], source)
        )
    if kind == "timestamp_us":
        return _time(value, json_type, source.time_form)
    if kind == "double":
        return _double(value, json_type, allow_nan=name in source.allow_nan)
    if kind == "float":
        return _float(value, json_type, allow_nan=name in source.allow_nan)
    if kind == "date":
        return _date(value, json_type)
    if width:
        bits = int(width[2])
        low, high = (0, 2**bits - 1) if width[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        good, reason = _long(value, json_type)
        return F.when(good.between(low, high), good), F.when(
            good.isNotNull(), "out_of_range"
        ).otherwise(reason)
    if spark_type(kind) == "bigint":
        return _long(value, json_type)
    if kind.startswith("decimal"):
        return _decimal(value, json_type, kind)
    wanted = spark_type(kind)
    good = F.when(json_type == wanted.upper(), F.try_variant_get(value, "$", wanted))
    return good, F.lit("wrong_type")


def _array(value: Column, json_type: Column, rule: Callable[[Column], Rule]) -> Rule:
    """The rule for an array of elements that may be null; the first bad one says why the list
    is."""

    def why(element: Column) -> Column:
        good, reason = rule(element)
        return F.when(good.isNull() & _there(F.schema_of_variant(element)), reason)

    elements = F.when(
        json_type.startswith("ARRAY"), F.try_variant_get(value, "$", "array<variant>")
    )
    reasons = F.filter(F.transform(elements, why), lambda reason: reason.isNotNull())
    good = F.when(F.size(reasons) == 0, F.transform(elements, lambda element: rule(element)[0]))
    return good, F.coalesce(F.try_element_at(reasons, F.lit(1)), F.lit("wrong_type"))


def _float(value: Column, json_type: Column, *, allow_nan: bool) -> Rule:
    exact, reason = _double(value, json_type, allow_nan=allow_nan)
    nearest = exact.cast("float").cast("double")
    endless = F.abs(exact) == float("inf")
    good = F.when(
        endless | (F.abs(nearest) != float("inf")),
        F.when(nearest == 0.0, F.lit(0.0)).otherwise(nearest),
    )
    return good, F.when(exact.isNotNull(), F.lit("out_of_range")).otherwise(reason)


def _date(value: Column, json_type: Column) -> Rule:
    text = F.try_variant_get(value, "$", "string")
    day = F.when(
        text.rlike(r"\A\d{4}-\d{2}-\d{2}\z") & ~text.startswith("0000"), text.try_cast("date")
    )
    good = F.when(json_type == "STRING", day)
    return good, F.when(json_type == "STRING", F.lit("bad_date")).otherwise(F.lit("wrong_type"))


def _long(value: Column, json_type: Column) -> Rule:
    good = F.when(json_type == "BIGINT", F.try_variant_get(value, "$", "bigint"))
    huge = F.abs(F.try_variant_get(value, "$", "double")) >= float(1 << 63)
    number = json_type.startswith("DECIMAL") | (json_type == "DOUBLE")
    return good, F.when(number & huge, F.lit("out_of_range")).otherwise(F.lit("wrong_type"))


def _double(value: Column, json_type: Column, *, allow_nan: bool) -> Rule:
    number = F.try_variant_get(value, "$", "double")
    is_number = json_type.isin("BIGINT", "DOUBLE") | json_type.startswith("DECIMAL")
    finite = F.abs(number) < float("inf")
    # canonical: a negative zero is zero
    good = F.when(is_number & finite, F.when(number == 0.0, F.lit(0.0)).otherwise(number))
    if allow_nan:
        text = F.try_variant_get(value, "$", "string")
        named = (json_type == "STRING") & text.isin("NaN", "Infinity", "-Infinity")
        good = F.coalesce(good, F.when(named, F.try_variant_get(value, "$", "double")))
    not_finite = F.try_variant_get(value, "$", "string").isin("NaN", "Infinity", "-Infinity")
    return good, F.when(not_finite, F.lit("out_of_range")).otherwise(F.lit("wrong_type"))


def _decimal(value: Column, json_type: Column, kind: str) -> Rule:
    target = spark_type(kind)
    scale = int(target.rstrip(")").split(",")[1])
    is_number = (json_type == "BIGINT") | json_type.startswith("DECIMAL")
    # a variant's decimal has no trailing zeros: more digits than the column's are more value
    digits = F.regexp_extract(json_type, r",(\d+)\)", 1).try_cast("int")
    fits = F.coalesce(digits, F.lit(0)) <= scale
    good = F.when(is_number & fits, F.try_variant_get(value, "$", target))
    return good, F.when(is_number, F.lit("out_of_range")).otherwise(F.lit("wrong_type"))


def _time(value: Column, json_type: Column, form: str) -> Rule:
    """Microseconds UTC. Fractions below a microsecond are cut off."""
    if form == "rfc3339":
        text = F.try_variant_get(value, "$", "string")
        micros = F.when((json_type == "STRING") & text.rlike(_RFC3339), _rfc3339_us(text))
        wanted = "STRING"
    else:
        unit = _UNIT_US[form]
        count = F.try_variant_get(value, "$", "bigint")
        inside = (count >= 0) & (count < END_OF_TIME_US // unit)
        micros = F.when((json_type == "BIGINT") & inside, count * unit)
        wanted = "BIGINT"
    good = F.when((micros >= 0) & (micros < END_OF_TIME_US), micros)
    return good, F.when(json_type == wanted, F.lit("bad_time")).otherwise(F.lit("wrong_type"))


def _rfc3339_us(text: Column) -> Column:
    """RFC 3339 with zone, of a text that has its form; null for a day that does not exist."""

    def number(start: int, length: int) -> Column:
        return F.substring(text, start, length).cast("bigint")

    day = F.unix_date(F.substring(text, 1, 10).try_cast("date")).cast("bigint")
    seconds = number(12, 2) * 3600 + number(15, 2) * 60 + number(18, 2)
    fraction = F.regexp_extract(text, r"\.(\d+)", 1)
    micros = F.substring(F.rpad(fraction, 6, "0"), 1, 6).cast("bigint")
    sign = F.substring(F.right(text, F.lit(6)), 1, 1)
    zone = (
        F.substring(F.right(text, F.lit(5)), 1, 2).cast("bigint") * 3600
        + F.right(text, F.lit(2)).cast("bigint") * 60
    )
    offset = F.when(sign == "+", zone).when(sign == "-", -zone).otherwise(F.lit(0))
    utc = F.when(F.upper(F.right(text, F.lit(1))) == "Z", seconds).otherwise(seconds - offset)
    return (day * 86_400 + utc) * 1_000_000 + micros
