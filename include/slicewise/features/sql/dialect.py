"""A function keeps the name that its author wrote: only those of row logic become what the parser knows of them."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser

_ROW_LOGIC = {"ABS", "COALESCE", "IF", "NULLIF", "LEAST", "GREATEST", "LENGTH", "CONCAT", "LOWER", "UPPER"}
_CASTS = {"CAST", "TRY_CAST"}


class SlicewiseSql(DuckDB):
    """Row logic's dialect, in which aggregates are names with arguments, and SESSION is one of them."""

    class Tokenizer(DuckDB.Tokenizer):
        KEYWORDS = {text: kind for text, kind in DuckDB.Tokenizer.KEYWORDS.items() if text != "SESSION"}  # noqa: RUF012

    class Parser(DuckDBParser):
        FUNCTIONS = {name: made for name, made in DuckDBParser.FUNCTIONS.items() if name in _ROW_LOGIC}  # noqa: RUF012
        FUNCTION_PARSERS = {n: read for n, read in DuckDBParser.FUNCTION_PARSERS.items() if n in _CASTS}  # noqa: RUF012
