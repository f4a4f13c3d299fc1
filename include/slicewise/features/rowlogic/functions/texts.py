"""Texts that each engine runs for a function of row logic: equal values on every row, and no
errors.

{0}, {1}, {2} are the arguments' texts. Instants are microseconds since 1970, never negative;
whatever counts in UTC is whole-number arithmetic on them, so that no engine's time zone bears on
it.
"""

from __future__ import annotations

from collections.abc import Mapping

_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_BELOW_2_63, _AT_MINUS_2_63 = "9.2233720368547748E18", "-9.2233720368547758E18"
# 60 bits of the digest of the text's UTF-8 bytes
_SPARK_HASH = "CAST(conv(substring(md5({0}), 1, 15), 16, 10) AS BIGINT)"
_DUCKDB_HASH = "CAST('0x' || substring(md5({0}), 1, 15) AS BIGINT)"


def _spark_units(of: int, within: int) -> str:
    return f"(({{0}} DIV {of}L) % {within}L)"


def _duckdb_units(of: int, within: int) -> str:
    return f"(({{0}} // {of}) % {within})"


def _both(text: str) -> tuple[str, str]:
    return text, text


def _as_long(spark: str, duckdb: str | None = None) -> tuple[str, str]:
    return f"CAST({spark} AS BIGINT)", f"CAST({duckdb or spark} AS BIGINT)"


TEXTS: Mapping[str, tuple[str, str]] = {
    # text: positions and lengths count characters
    "substring": ("substring({0}, CAST({1} AS INT), CAST({2} AS INT))", "substring({0}, {1}, {2})"),
    "right": ("right({0}, CAST({1} AS INT))", "right({0}, {1})"),
    "trim": ("trim(BOTH ' ' FROM {0})", "trim({0}, ' ')"),
    "ltrim": ("trim(LEADING ' ' FROM {0})", "ltrim({0}, ' ')"),
    "rtrim": ("trim(TRAILING ' ' FROM {0})", "rtrim({0}, ' ')"),
    "starts_with": ("startswith({0}, {1})", "starts_with({0}, {1})"),
    "ends_with": ("endswith({0}, {1})", "ends_with({0}, {1})"),
    "contains": _both("contains({0}, {1})"),
    "replace": _both("replace({0}, {1}, {2})"),
    "split_part": ("split_part({0}, {1}, CAST({2} AS INT))", "split_part({0}, {1}, {2})"),
    "position": _as_long("position({1}, {0})", "strpos({0}, {1})"),
    "like": _both("({0} LIKE {1})"),
    "ascii_lower": _both(f"translate({{0}}, '{_UPPER}', '{_LOWER}')"),
    "ascii_upper": _both(f"translate({{0}}, '{_LOWER}', '{_UPPER}')"),
    "octet_length": _as_long("octet_length({0})", "strlen({0})"),
    "bucket": (f"({_SPARK_HASH} % {{1}})", f"({_DUCKDB_HASH} % {{1}})"),
    # numbers
    "mod": ("({0} % nullif({1}, 0L))", "CAST(CAST({0} AS HUGEINT) % nullif({1}, 0) AS BIGINT)"),
    "whole_div": (
        "CASE WHEN {1} = -1L THEN try_subtract(0L, {0}) ELSE ({0} DIV nullif({1}, 0L)) END",
        "TRY_CAST(CAST({0} AS HUGEINT) // nullif({1}, 0) AS BIGINT)",
    ),
    "sqrt": _both("CASE WHEN {0} >= 0 THEN sqrt({0}) END"),
    # dates; dayofweek is 1 on Sunday
    "date": (
        "date_from_unix_date(CAST({0} DIV 86400000000L AS INT))",
        "(DATE '1970-01-01' + CAST({0} // 86400000000 AS INTEGER))",
    ),
    **{
        part: _as_long(f"{part}({{0}})")
        for part in ("year", "quarter", "month", "day", "dayofyear", "weekofyear")
    },
    "dayofweek": _as_long("dayofweek({0})", "dayofweek({0}) + 1"),
    "date_diff": _as_long("datediff({1}, {0})", "date_diff('day', {0}, {1})"),
    # instants
    "hour": (_spark_units(3_600_000_000, 24), _duckdb_units(3_600_000_000, 24)),
    "minute": (_spark_units(60_000_000, 60), _duckdb_units(60_000_000, 60)),
    "second": (_spark_units(1_000_000, 60), _duckdb_units(1_000_000, 60)),
    "truncate": ("(({0} DIV {1}) * {1})", "(({0} // {1}) * {1})"),
    # nulls and arrays
    "same": _both("({0} IS NOT DISTINCT FROM {1})"),
    "array_contains": (
        (
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(array_contains({0}, "
            "{1}), FALSE) END"
        ),
        (
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(list_contains({0}, {1}), "
            "FALSE) END"
        ),
    ),
    "array_size": _as_long("array_size({0})", "len({0})"),
}


def rounded(op: str, decimal: str | None, spark: bool) -> str:
    """FLOOR and CEIL: of a decimal as a decimal without fraction, of a double as a long, null
    beyond."""
    if decimal is not None:
        return f"CAST({op}({{0}}) AS {decimal})"
    low, high = (f"{_AT_MINUS_2_63}D", f"{_BELOW_2_63}D") if spark else (
        f"CAST('{_AT_MINUS_2_63}' AS DOUBLE)", f"CAST('{_BELOW_2_63}' AS DOUBLE)"
    )  # fmt: skip
    return f"CASE WHEN {{0}} >= ({low}) AND {{0}} <= {high} THEN CAST({op}({{0}}) AS BIGINT) END"
