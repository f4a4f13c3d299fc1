"""Any expression of row logic over the columns of rowlogic_vectors, for property tests in every
engine."""

from __future__ import annotations

from hypothesis import strategies as st


def grammar() -> st.SearchStrategy[str]:
    """Texts of numeric and boolean expressions."""
    longs = st.sampled_from(
        [
            "a",
            "b",
            "0",
            "1",
            "-7",
            "9223372036854775807",
            "CAST(x AS BIGINT)",
            "LENGTH(s)",
            "HOUR(t)",
        ]
    )
    longs |= st.sampled_from(
        ["YEAR(e)", "DAYOFWEEK(t)", "BUCKET(s, 7)", "ARRAY_SIZE(l)", "POSITION('a' IN s)"]
    )
    days = st.sampled_from(["e", "w", "DATE(t)", "CAST(s AS DATE)", "DATE '2024-02-29'"])
    longs |= st.builds("DATE_DIFF('day', {}, {})".format, days, days)
    doubles = st.sampled_from(
        ["x", "y", "0.0", "1.5", "-2e300", "a / b", "CAST(b AS DOUBLE)", "CAST(s AS DOUBLE)"]
    )
    texts = st.sampled_from(["s", "r", "''", "'a'", "CAST(a AS STRING)", "s || r"])
    texts = st.recursive(
        texts,
        lambda deeper: st.one_of(
            st.builds("SUBSTRING({}, {}, {})".format, deeper, st.integers(1, 4), st.integers(0, 3)),
            st.builds(
                "{}({})".format,
                st.sampled_from(["TRIM", "ASCII_LOWER", "ASCII_UPPER", "LTRIM"]),
                deeper,
            ),
            st.builds("REPLACE({}, 'a', {})".format, deeper, deeper),
            st.builds("SPLIT_PART({}, '@', {})".format, deeper, st.integers(1, 3)),
        ),
        max_leaves=3,
    )
    booleans = st.sampled_from(["f", "g", "TRUE", "s = r", "x IS NULL"])

    def grow(
        numbers: st.SearchStrategy[str], deeper: st.SearchStrategy[str]
    ) -> st.SearchStrategy[str]:
        return numbers | st.one_of(
            st.builds("({} {} {})".format, deeper, st.sampled_from(["+", "-", "*", "/"]), deeper),
            st.builds(
                "{}({})".format, st.sampled_from(["ABS", "SIGN", "FLOOR", "CEIL", "SQRT"]), deeper
            ),
            st.builds("{}({}, {})".format, st.sampled_from(["MOD", "TRY_DIVIDE"]), longs, longs),
            st.builds("(- {})".format, deeper),
            st.builds(
                "{}({}, {})".format,
                st.sampled_from(["LEAST", "GREATEST", "COALESCE", "NULLIF"]),
                deeper,
                deeper,
            ),
            st.builds(
                "CASE WHEN {} < {} THEN {} ELSE {} END".format, deeper, deeper, deeper, deeper
            ),
        )

    numbers = st.recursive(longs | doubles, lambda deeper: grow(longs, deeper), max_leaves=6)
    compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    conditions = (
        st.builds("({} {} {})".format, numbers, compare, numbers)
        | st.builds("({} {} {})".format, texts, compare, texts)
        | st.builds(
            "{}({}, {})".format,
            st.sampled_from(["STARTS_WITH", "ENDS_WITH", "CONTAINS"]),
            texts,
            texts,
        )
        | st.builds("({} {} {})".format, days, compare, days)
        | st.builds("({} IS DISTINCT FROM {})".format, numbers, numbers)
        | booleans
    )
    logic = st.recursive(
        conditions,
        lambda deeper: (
            st.builds("({} {} {})".format, deeper, st.sampled_from(["AND", "OR"]), deeper)
            | st.builds("NOT {}".format, deeper)
        ),
        max_leaves=5,
    )
    return numbers | logic
