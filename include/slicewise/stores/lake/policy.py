"""Policies of maintenance by table; none lets a table lose rows that values are made of.

A TOML file (the setting `maintenance`) changes what its tables name; everything else stays as it is
without a file. `[tables."log.plays"]` goes before `[tables."log.*"]`, and that before `[defaults]`,
key by key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from slicewise.errors import BadRequest, SettingsError
from slicewise.settings import MAINTENANCE_FILE, MAINTENANCE_MOST, Settings
from slicewise.stores.lake.schemas import CHECKS, DATASETS, NAMESPACES, RUNS

LOSING_ROWS = frozenset(".".join(table.identifier) for table in (RUNS, CHECKS, DATASETS))
"""Tables whose old rows may go: no value, and no answer of the training API, is made of them."""
_LEAST: Mapping[str, int] = {
    "file_mb": 1,
    "keep_days": 0,
    "keep_snapshots": 1,
    "orphan_days": 1,  # Iceberg refuses less: a writer's files have no snapshot until it commits
    "rows_days": 1,
}


@dataclass(frozen=True)
class TablePolicy:
    """Bounds of one table."""

    file_mb: int = 512
    """Size in MiB that data files are rewritten to."""
    keep_days: int = 7
    """Age in days up to which snapshots stay readable."""
    keep_snapshots: int = 5
    """Snapshots that stay whatever their age."""
    orphan_days: int = 3
    """Age in days from which a file that no snapshot names is removed."""
    rows_days: int | None = None
    """Age in days from which rows are deleted; None: never."""

    @property
    def file_bytes(self) -> int:
        return self.file_mb << 20


@dataclass(frozen=True)
class Policies:
    """Policies of all tables."""

    defaults: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """`namespace.table` or `namespace.*` -> what it changes."""

    @staticmethod
    def load(settings: Settings) -> Policies:
        """The policies of the file that the settings name. Raises SettingsError."""
        file = settings.maintenance
        if not file.is_file():
            if file == settings.project_dir / MAINTENANCE_FILE:
                return Policies()
            raise SettingsError(
                "there is no such file",
                where=f"SLICEWISE_MAINTENANCE, {file}",
                expected="a TOML file with policies of maintenance",
                next_step="correct the variable, or leave it out",
            )
        return _parsed(file)

    def of(self, table: str) -> TablePolicy:
        """The policy of a table, `log.plays`."""
        every = self.tables.get(f"{table.partition('.')[0]}.*", {})
        return TablePolicy(**{**self.defaults, **every, **self.tables.get(table, {})})

    def unmatched(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Names in the file that no table has."""
        present = set(tables)
        present |= {f"{table.partition('.')[0]}.*" for table in present}
        return tuple(sorted(set(self.tables) - present))


def chosen_tables(names: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Tables that `wanted` names, as `log.plays` or `log.*`; all where it names none.
    Raises BadRequest for a name that no table has."""
    missing = [one for one in wanted if not any(_matches(one, name) for name in names)]
    if missing:
        raise BadRequest(
            f"there is no table {missing[0]!r}",
            where="tables",
            expected=", ".join(names) or "a table; the catalog has none yet",
            next_step="name tables as log.plays, or all of a namespace as log.*",
        )
    return tuple(n for n in names if not wanted or any(_matches(one, n) for one in wanted))


def _matches(wanted: str, name: str) -> bool:
    return wanted in (name, f"{name.partition('.')[0]}.*")


def _parsed(file: Path) -> Policies:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(
            str(error), where=str(file), expected="a readable TOML file", next_step="correct it"
        ) from error
    for name in document:
        if name not in ("defaults", "tables"):
            raise _refused(file, f"[{name}]", "[defaults] or [tables.…]", "correct its name")
    tables = _table(file, "tables", document.get("tables", {}))
    return Policies(
        _bounds(file, "defaults", document.get("defaults", {}), may_lose_rows=False),
        {name: _of_table(file, name, given) for name, given in tables.items()},
    )


def _of_table(file: Path, name: str, given: object) -> Mapping[str, int]:
    namespace, _, table = name.partition(".")
    if namespace not in NAMESPACES or not table or ("*" in table and table != "*"):
        raise _refused(
            file,
            f'[tables."{name}"]',
            f'"<namespace>.<table>" or "<namespace>.*" of {", ".join(NAMESPACES)}',
            "write the name as Iceberg has it, in quotes",
        )
    return _bounds(file, f'tables."{name}"', given, may_lose_rows=name in LOSING_ROWS)


def _bounds(file: Path, where: str, given: object, *, may_lose_rows: bool) -> Mapping[str, int]:
    names = [one.name for one in fields(TablePolicy)]
    bounds = _table(file, where, given)
    for name, value in bounds.items():
        entry = f"[{where}] {name}"
        if name not in names:
            raise _refused(file, entry, ", ".join(names), "correct its name, or leave it out")
        if type(value) is not int or not _LEAST[name] <= value <= MAINTENANCE_MOST:
            raise _refused(
                file,
                f"{entry} = {value!r}",
                f"a whole number of at least {_LEAST[name]}, and at most {MAINTENANCE_MOST:,}",
                "correct the number, or leave it out",
            )
        if name == "rows_days" and not may_lose_rows:
            raise _refused(
                file,
                entry,
                f"rows_days of {', '.join(sorted(LOSING_ROWS))} alone: values are made of the "
                "rows of all other tables",
                "leave it out",
            )
    return bounds


def _table(file: Path, where: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise _refused(file, f"{where} = {given!r}", f"a table: [{where}]", "write it as a table")
    return given


def _refused(file: Path, what: str, expected: str, next_step: str) -> SettingsError:
    return SettingsError(
        f"no policy of maintenance: {what}",
        where=str(file),
        expected=expected,
        next_step=next_step,
    )
