"""A function keeps the name that its author wrote, unless row logic has it."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser

from slicewise.features.rowlogic.reader import QuietParser
from slicewise.features.sql.names import kept_names

_KEPT = kept_names()


class SlicewiseSql(DuckDB):
    """Row logic's dialect, in which aggregates are names with arguments, and SESSION and ANY are
    such names."""

    class Tokenizer(DuckDB.Tokenizer):
        KEYWORDS = {  # noqa: RUF012
            text: kind
            for text, kind in DuckDB.Tokenizer.KEYWORDS.items()
            if text not in ("SESSION", "ANY")
        }

    class Parser(QuietParser):
        FUNCTIONS = {  # noqa: RUF012
            name: made for name, made in DuckDBParser.FUNCTIONS.items() if name not in _KEPT
        }
        FUNCTION_PARSERS = {  # noqa: RUF012
            n: read for n, read in DuckDBParser.FUNCTION_PARSERS.items() if n not in _KEPT
        }
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            name: read
            for name, read in DuckDBParser.NO_PAREN_FUNCTION_PARSERS.items()
            if name != "ANY"
        }
