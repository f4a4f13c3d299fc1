"""Any expression of row logic over the columns of rowlogic_vectors, for property tests in every engine."""

from __future__ import annotations

from hypothesis import strategies as st


def grammar() -> st.SearchStrategy[str]:
    """Texts of numeric and boolean expressions."""
    longs = st.sampled_from(["a", "b", "0", "1", "-7", "9223372036854775807", "CAST(x AS BIGINT)", "LENGTH(s)"])
    doubles = st.sampled_from(["x", "y", "0.0", "1.5", "-2e300", "a / b", "CAST(b AS DOUBLE)", "CAST(s AS DOUBLE)"])
    texts = st.sampled_from(["s", "r", "''", "'a'", "CAST(a AS STRING)", "s || r"])
    booleans = st.sampled_from(["f", "g", "TRUE", "s = r", "x IS NULL"])

    def grow(numbers: st.SearchStrategy[str], deeper: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return numbers | st.one_of(
            st.builds("({} {} {})".format, deeper, st.sampled_from(["+", "-", "*", "/"]), deeper),
            st.builds("ABS({})".format, deeper),
            st.builds("(- {})".format, deeper),
            st.builds(
                "{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST", "COALESCE", "NULLIF"]), deeper, deeper
            ),
            st.builds("CASE WHEN {} < {} THEN {} ELSE {} END".format, deeper, deeper, deeper, deeper),
        )

    numbers = st.recursive(longs | doubles, lambda deeper: grow(longs, deeper), max_leaves=6)
    compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    conditions = (
        st.builds("({} {} {})".format, numbers, compare, numbers)
        | st.builds("({} {} {})".format, texts, compare, texts)
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
