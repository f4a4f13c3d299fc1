"""Row logic is parsed as DuckDB's SQL, by a parser that says nothing by itself: what is refused,
the caller tells."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser


class QuietParser(DuckDBParser):
    """The parser of DuckDB's SQL, without its warnings on the standard error."""

    def _warn_unsupported(self) -> None:
        """Leave it to who refuses the tree: a statement that is not understood is no expression."""


class RowLogicSql(DuckDB):
    """The dialect of row logic."""

    Parser = QuietParser
